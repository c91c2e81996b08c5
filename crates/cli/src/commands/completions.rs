//! `garret completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Cli;
use crate::output::{CliOutcome, CliReport};
use crate::session::Session;

pub(crate) const DETAILS: &str = "\
Examples:
  bash:  source <(garret completions bash)
  zsh:   garret completions zsh > ~/.zfunc/_garret
  fish:  garret completions fish > ~/.config/fish/completions/garret.fish
In bash, zsh and fish, names of workspaces, snapshots and branches are completed, too.";

/// The functions by which bash completes names that Garret itself knows, beside options and commands.
const BASH_NAMES: &str = r#"
_garret_names() {
    local kind="" cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}"
    local -a words=() globals=()
    local index word
    for ((index = 1; index < COMP_CWORD; index++)); do
        word="${COMP_WORDS[index]}"
        case "$word" in
            -w)
                # After `grep`, it means whole words.
                [[ "${words[0]}" == grep ]] || { globals+=("$word" "${COMP_WORDS[index+1]}"); ((index++)); } ;;
            --workspace|--home|--config)
                globals+=("$word" "${COMP_WORDS[index+1]}")
                ((index++)) ;;
            -*) ;;
            *) words+=("$word") ;;
        esac
    done
    case "$prev" in
        -w) [[ "${words[0]}" == grep ]] || kind=workspaces ;;
        --workspace) kind=workspaces ;;
        --at|--from) [[ "${words[0]}" == import ]] || kind=snapshots ;;
    esac
    if [[ -z "$kind" && "$cur" != -* ]]; then
        case "${words[*]}" in
            rename|delete|export|usage|keep|capabilities|mcp) kind=workspaces ;;
            recover) kind=deleted ;;
            merge|"branch delete") kind=branches ;;
            restore|diff|"diff "*|"snapshot delete") kind=snapshots ;;
        esac
    fi
    if [[ -n "$kind" ]]; then
        [[ "$prev" == -w || "$prev" == --workspace ]] && globals=()
        # Not `compgen -W`, which would expand the names once more, commands in them included.
        COMPREPLY=()
        while IFS= read -r word; do
            [[ "$word" == "$cur"* ]] && COMPREPLY+=("$word")
        done < <("${COMP_WORDS[0]}" "${globals[@]}" __complete "$kind" 2>/dev/null)
        [[ ${#COMPREPLY[@]} -gt 0 ]] && return 0
    fi
    _garret "$1" "$cur" "$prev"
}
complete -F _garret_names -o nosort -o bashdefault -o default garret
"#;

/// The functions by which zsh completes names. They read the line as it is typed: `words` lacks the words before the
/// subcommand.
const ZSH_NAMES: &str = r#"
_garret_known() {
    local -a typed globals names
    local index is_grep
    typed=("${(@Q)${(z)LBUFFER}}")
    for ((index = $typed[(I)(\;|\||\&\&|\|\|)] + 1; index < $#typed; index++)); do
        case "$typed[index]" in
            grep) is_grep=1 ;;
            --home|--config) globals+=("$typed[index]" "$typed[index+1]") ;;
            # After `grep`, -w means whole words.
            -w|--workspace)
                [[ $1 == workspaces || ( -n "$is_grep" && "$typed[index]" == -w ) ]] ||
                    globals+=("$typed[index]" "$typed[index+1]") ;;
        esac
    done
    if [[ -z "$is_grep" || "$words[CURRENT-1]" != -w ]]; then
        names=(${(f)"$(garret $globals __complete $1 2>/dev/null)"})
        compadd -a names
    fi
    _default
}
_garret_workspaces() { _garret_known workspaces }
_garret_deleted() { _garret_known deleted }
_garret_snapshots() { _garret_known snapshots }
_garret_branches() { _garret_known branches }
"#;

/// The functions by which fish completes names, beside options and commands.
const FISH_NAMES: &str = r#"
function __garret_names
    set -l globals
    set -l words (commandline -opc)
    for index in (seq 2 (count $words))
        if contains -- $words[$index] -w --workspace --home --config
            set -a globals $words[$index] $words[(math $index + 1)]
        end
    end
    garret $globals __complete $argv[1] 2>/dev/null
end
complete -c garret -n 'not __fish_seen_subcommand_from grep' -s w -x -a '(garret __complete workspaces 2>/dev/null)'
complete -c garret -l workspace -x -a '(garret __complete workspaces 2>/dev/null)'
complete -c garret -l at -x -a '(__garret_names snapshots)'
complete -c garret -n 'not __fish_seen_subcommand_from import' -l from -x -a '(__garret_names snapshots)'
function __garret_is_named
    __fish_seen_subcommand_from $argv; and not __fish_seen_subcommand_from snapshot branch
end
complete -c garret -n '__garret_is_named export mcp' -a '(garret __complete workspaces 2>/dev/null)'
complete -c garret -n '__garret_is_named rename delete usage keep capabilities' -f -a '(garret __complete workspaces 2>/dev/null)'
complete -c garret -n '__garret_is_named recover' -f -a '(garret __complete deleted 2>/dev/null)'
complete -c garret -n '__garret_is_named merge' -f -a '(__garret_names branches)'
complete -c garret -n '__garret_is_named restore diff' -a '(__garret_names snapshots)'
complete -c garret -n '__fish_seen_subcommand_from snapshot; and __fish_seen_subcommand_from delete' -f -a '(__garret_names snapshots)'
complete -c garret -n '__fish_seen_subcommand_from branch; and __fish_seen_subcommand_from delete' -f -a '(__garret_names branches)'
"#;

/// Arguments in the script for zsh, by the beginning of their line, and the function that completes them. The first
/// that fits counts.
const ZSH_ARGUMENTS: [(&str, &str); 10] = [
    ("':branch -- ", "_garret_branches"),
    ("':label -- The label:", "_garret_snapshots"),
    ("'::name -- The deleted workspace", "_garret_deleted"),
    ("'::name -- The workspace", "_garret_workspaces"),
    ("'::name -- Only this workspace", "_garret_workspaces"),
    ("'::path -- The workspace", "_garret_workspaces"),
    ("'::from -- The earlier point", "_garret_snapshots"),
    ("'::to -- The later point", "_garret_snapshots"),
    ("'::first -- A snapshot", "_garret_snapshots"),
    ("':name -- The name of the branch", "_garret_branches"),
];

#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

impl CompletionsArgs {
    pub(crate) async fn run(&self, _session: &Session) -> CliOutcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "garret", &mut script);
        let script = String::from_utf8(script).expect("completions are text");
        let text = match self.shell {
            Shell::Bash => format!("{script}{BASH_NAMES}"),
            Shell::Zsh => zsh_script(&script),
            Shell::Fish => format!("{script}{FISH_NAMES}"),
            _ => script,
        };
        Ok(CliReport::success(
            text,
            serde_json::json!({"shell": self.shell.to_string()}),
        ))
    }
}

/// Makes the script for zsh, in which functions of Garret complete the names.
fn zsh_script(script: &str) -> String {
    let named = script
        .replace(":WORKSPACE:_default", ":WORKSPACE:_garret_workspaces")
        .replace(":POINT:_default", ":POINT:_garret_snapshots");
    let named: String = named.split_inclusive('\n').map(complete_zsh_line).collect();
    // The first line must stay the first: it tells zsh which command the script completes.
    match named.split_once('\n') {
        Some((first, rest)) => format!("{first}\n{ZSH_NAMES}{rest}"),
        None => named,
    }
}

fn complete_zsh_line(line: &str) -> String {
    let found = ZSH_ARGUMENTS.iter().find(|(start, _)| line.starts_with(start));
    match found {
        Some((_, function)) => line.replace(":_default'", &format!(":{function}'")),
        None => line.to_owned(),
    }
}
