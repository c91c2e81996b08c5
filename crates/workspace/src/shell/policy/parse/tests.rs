use proptest::prelude::*;

use super::*;

/// The commands of a text, each as its words with spaces; a word that is no literal is in angle brackets.
fn commands(text: &str) -> Vec<String> {
    shown(&CommandLine::parse(text))
}

fn shown(line: &CommandLine) -> Vec<String> {
    let word = |word: &CommandWord| match word.kind {
        WordKind::Literal => word.text.clone(),
        _ => format!("<{}>", word.text),
    };
    let command = |command: &SimpleCommand| command.words.iter().map(word).collect::<Vec<_>>().join(" ");
    line.commands.iter().map(command).collect()
}

#[track_caller]
fn reads(text: &str, expected: &[&str]) {
    let mut expected: Vec<_> = expected.iter().map(|&command| command.to_owned()).collect();
    let mut found = commands(text);
    // A command in a word of another one comes before it; the order decides nothing.
    expected.sort();
    found.sort();
    assert_eq!(found, expected, "{text}");
    assert!(!CommandLine::parse(text).is_partial, "{text}");
}

#[test]
fn every_part_of_a_list_is_found() {
    reads("a; b && c || d & e", &["a", "b", "c", "d", "e"]);
    reads("a | b |& c", &["a", "b", "c"]);
    reads("a # rm\nb", &["a", "b"]);
    reads("! a", &["a"]);
}

#[test]
fn compound_commands_are_looked_into() {
    reads("(a; (b))", &["a", "b"]);
    reads("{ a; } > f", &["a"]);
    reads("if a; then b; elif c; then d; else e; fi", &["a", "b", "c", "d", "e"]);
    reads(
        "for i in x; do a; done; while b; do c; done; until d; do e; done",
        &["a", "b", "c", "d", "e"],
    );
    reads("case x in a) b;; *) c;; esac", &["b", "c"]);
    reads("f() { a; }; function g { b; }; f", &["a", "b", "f"]);
}

#[test]
fn substitutions_are_looked_into() {
    reads("a $(b)", &["a <$(b)>", "b"]);
    reads("a `b`", &["a <`b`>", "b"]);
    reads("a \"x $(b \"$(c)\")\"", &["a <x $(b \"$(c)\")>", "b <$(c)>", "c"]);
    reads("a <(b) >(c)", &["a <<(b)> <>(c)>", "b", "c"]);
    reads("a ${x:-$(b)}", &["a <${x:-$(b)}>", "b"]);
    reads("x=$(a) b", &["a", "b"]);
    reads("x=$(a)", &["a"]);
    reads("echo $((1 + $(a)))", &["echo <$((1 + $(a)))>", "a"]);
    reads(
        "[[ -f $(a) ]] && for i in $(b); do c; done",
        &["[[ -f <$(a)> <]]>", "a", "b", "c"],
    );
    reads("export x=$(a)", &["export <x=$(a)>", "a"]);
    reads("x=(1 $(a))", &["a"]);
    reads("a > $(b)", &["a", "b"]);
}

#[test]
fn quotes_and_backslashes_within_words_are_taken_away() {
    for text in [
        "r''m x",
        "r\"\"m x",
        "'r'm x",
        "\"rm\" x",
        "\\rm x",
        "r\\m x",
        "r\\\nm x",
        "$'\\x72m' x",
        "$'\\162\\x6d' x",
    ] {
        reads(text, &["rm x"]);
    }
    reads("a 'b c' \"d  \\\"e\\\" \\f\" g\\ h", &["a b c d  \"e\" \\f g h"]);
    reads("a -x\\\n  -y", &["a -x -y"]);
}

#[test]
fn patterns_and_variables_are_no_literals_unless_quoted() {
    reads("a *.c ~/x {b,c} $d \"$e\"", &["a <*.c> <~/x> <{b,c}> <$d> <$e>"]);
    reads("a '*.c' \"~/x\" \\~ '$d' \"\\$d\"", &["a *.c ~/x ~ $d $d"]);
    reads("/bin/r? x", &["</bin/r?> x"]);
}

#[test]
fn a_variable_of_the_same_text_is_guessed() {
    reads("x=rm; $x -rf /", &["<rm> -rf /"]);
    reads("x=rm y='-rf /'; ${x} $y", &["<rm> <-rf> </>"]);
    reads("x=m; r$x a; \"r${x}\" b", &["<rm> a", "<rm> b"]);
    reads("rm${IFS}-rf${IFS}/", &["<rm> <-rf> </>"]);
    reads("r$@m a", &["<rm> a"]);
    reads("$(echo rm) a", &["<rm> a", "echo rm"]);
}

#[test]
fn here_documents_are_looked_into_where_the_shell_does() {
    reads("cat <<E\n$(a)\nE", &["cat", "a"]);
    reads("cat <<'E'\n$(a)\nE", &["cat"]);
    reads("cat <<E | b\nx\nE\nc", &["cat", "b", "c"]);
}

#[test]
fn what_a_shell_is_given_is_read_again() {
    reads("sh -c 'a; b'", &["sh -c a; b", "a", "b"]);
    reads(
        "bash -euo pipefail -c \"a 'b'\" x",
        &["bash -euo pipefail -c a 'b' x", "a b"],
    );
    reads("sh <<'E'\na\nE", &["sh", "a"]);
    reads("sh <<< 'a b'", &["sh", "a b"]);
    reads("cat <<'E' | sh -s\na\nE", &["cat", "sh -s"]);
    reads("echo 'a b' | sh", &["echo a b", "sh", "a b"]);
    reads(
        "printf %s 'a' | sudo bash -",
        &["printf %s a", "sudo bash -", "bash -", "a"],
    );
    reads("eval a 'b c'", &["eval a b c", "a b c"]);
    reads("trap 'a' EXIT", &["trap a EXIT", "a"]);
    reads(
        "sh -c 'sh -c \"sh -c a\"'",
        &["sh -c sh -c \"sh -c a\"", "sh -c sh -c a", "sh -c a", "a"],
    );
    reads("sh script.sh a", &["sh script.sh a"]);
    reads("su root -c a", &["su root -c a", "a"]);
}

#[test]
fn a_text_that_only_the_run_knows_is_not_the_whole() {
    for text in ["sh -c \"$x\"", "eval $x", "sh -c \"a $(b)\"", "bash <(a)"] {
        assert!(CommandLine::parse(text).is_partial, "{text}");
    }
    assert_eq!(
        commands("sh -c \"rm -rf $HOME\""),
        ["sh -c <rm -rf $HOME>", "rm -rf <$HOME>"]
    );
}

#[test]
fn programs_that_run_programs_are_seen_through() {
    reads("env -C / -u X A=b a c", &["env -C / -u X A=b a c", "a c"]);
    reads("env --chdir=/ -i a", &["env --chdir=/ -i a", "a"]);
    reads("env --chdir / a", &["env --chdir / a", "a"]);
    reads("env -S 'a b'", &["env -S a b", "a b"]);
    reads("sudo -nu root -- a b", &["sudo -nu root -- a b", "a b"]);
    reads("timeout -k 5 10 a b", &["timeout -k 5 10 a b", "a b"]);
    reads("nohup nice -n 5 a &", &["nohup nice -n 5 a", "nice -n 5 a", "a"]);
    reads(
        "find . -name x -exec a {} \\; -exec b {} +",
        &["find . -name x -exec a <{}> ; -exec b <{}> +", "a <{}>", "b <{}>"],
    );
    reads(
        "b | xargs -I{} -n 1 a x",
        &["b", "xargs <-I{}> -n 1 a x", "<-I{}> -n 1 a x"],
    );
    reads("echo / | xargs rm -rf", &["echo /", "xargs rm -rf", "rm -rf /"]);
    reads("command -v a", &["command -v a"]);
    reads("time a; exec -a x b", &["time a", "a", "exec -a x b", "b"]);
    reads("busybox rm x", &["busybox rm x", "rm x"]);
}

#[test]
fn arguments_without_a_shell_are_what_they_are() {
    let arguments = ["env", "-C", "/", "sh", "-c", "a $(b) *"].map(str::to_owned);
    let line = CommandLine::from_program(&CommandProgram::Arguments(arguments.to_vec()));
    assert_eq!(
        shown(&line),
        ["env -C / sh -c a $(b) *", "sh -c a $(b) *", "b", "a <$(b)> <*>"]
    );
}

#[test]
fn what_a_command_reads_is_known() {
    let line = CommandLine::parse("a | tee x | (b; sh) && c");
    let names: Vec<_> = line.commands.iter().map(SimpleCommand::name).collect();
    assert_eq!(names, ["a", "tee", "b", "sh", "c"]);
    assert_eq!(line.commands[3].inputs, 0..3);
    assert!(line.commands[4].inputs.is_empty());
}

#[test]
fn where_output_goes_is_known() {
    let line = CommandLine::parse("a > x 2>> y <z &> $w; { b; } >| v");
    let writes: Vec<_> = line.writes.iter().map(|word| word.text.as_str()).collect();
    assert_eq!(writes, ["x", "y", "$w", "v"]);
}

#[test]
fn constructs_that_are_not_known_are_not_whole() {
    for text in [
        "a `b \\`c\\``",
        "time (a)",
        "a ${x:-'}'}",
        "a @(b|c)",
        "a $((b); c)",
        "cat <<E",
        "cat <<E 'x\ny'\nz\nE\nb",
        "a; }",
        "if a; done",
    ] {
        assert!(CommandLine::parse(text).is_partial, "{text}");
    }
    reads("((a b))", &["a b"]);
    reads("for ((i = 0; i < 3; i++)); do a; done", &["a"]);
}

#[test]
fn what_is_no_shell_text_is_not_whole_and_still_looked_into() {
    let line = CommandLine::parse("if true; then rm -rf /");
    assert!(line.is_partial);
    assert!(shown(&line).contains(&"rm -rf /".to_owned()), "{line:?}");
    assert!(CommandLine::parse("{rm,-rf,/}").is_partial);
}

/// Text from outside may nest and grow as it likes; that must end neither the process nor the patience.
#[test]
fn hostile_text_is_refused_in_time() {
    for text in [
        format!("{}true{}", "$(".repeat(20_000), ")".repeat(20_000)),
        format!("{}true{}", "( ".repeat(30_000), ")".repeat(30_000)),
        format!("{}rm", "env ".repeat(20_000)),
        "sh -c '".repeat(4_999),
        "$(<<X \"${".repeat(3_000),
        format!("echo {}x{}", "\"$(echo ".repeat(2_000), ")\"".repeat(2_000)),
        "x".repeat(200_000),
        "if ".repeat(40_000),
        format!("a{}", "|(b|c)".repeat(15_000)),
        format!("({}) | ({})", "sh;".repeat(20_000), "sh;".repeat(20_000)),
    ] {
        assert!(CommandLine::parse(&text).is_partial, "{}", &text[..20]);
    }
}

/// Texts made of the parts that mean something to a shell.
fn shell_texts() -> impl Strategy<Value = String> {
    let parts = [
        "rm", "sh", "-c", "env", "x=", "x", "$x", "$(", "${", "$((", "$'", "`", "'", "\"", "\\", "(", ")", "((", "{",
        "}", "[[", "]]", ";", ";;", "&", "&&", "|", "||", ">", "<", "<<", "<<<", "<(", "\n", " ", " ", "if", "then",
        "fi", "case", "in", "esac", "for", "do", "done", "function", "f()", "E", "é", "#", "*", "~",
    ];
    prop::collection::vec(prop::sample::select(parts.to_vec()), 0..40).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_to_a_bounded_list_of_sound_commands(text in shell_texts()) {
        let line = CommandLine::parse(&text);
        // Text for a shell is read once for each shell that gets it, so the list may be longer than the text, but not endless.
        prop_assert!(line.commands.len() <= 4 * reader::MAX_COMMANDS);
        for (index, command) in line.commands.iter().enumerate() {
            prop_assert!(!command.words.is_empty());
            prop_assert!(command.inputs.end <= index, "{:?}", command);
            let outputs = command.words.iter().flat_map(|word| &word.outputs);
            prop_assert!(outputs.into_iter().all(|output| *output < line.commands.len()));
        }
        prop_assert!(line.functions.values().all(|body| body.end <= line.commands.len()));
    }

    #[test]
    fn text_that_is_cut_off_hides_no_command_before_it(text in shell_texts()) {
        let line = CommandLine::parse(&format!("marked x\n{text}"));
        prop_assert_eq!(line.commands.first().map(SimpleCommand::name), Some("marked"));
    }
}
