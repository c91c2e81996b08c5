//! `garret completions`

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::arguments::Cli;
use crate::output::{Outcome, Report};

pub(crate) const DETAILS: &str = "\
Examples:
  bash:  source <(garret completions bash)
  zsh:   garret completions zsh > ~/.zfunc/_garret
  fish:  garret completions fish > ~/.config/fish/completions/garret.fish
In bash, zsh and fish, names of workspaces, snapshots and branches are completed, too.";

/// What bash completes beside options and commands: names that Garret itself knows.
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
        COMPREPLY=($(compgen -W "$("${COMP_WORDS[0]}" "${globals[@]}" __complete "$kind" 2>/dev/null)" -- "$cur"))
        [[ ${#COMPREPLY[@]} -gt 0 ]] && return 0
    fi
    _garret "$1" "$cur" "$prev"
}
complete -F _garret_names -o nosort -o bashdefault -o default garret
"#;

/// The functions by which zsh completes names.
const ZSH_NAMES: &str = r#"
_garret_known() {
    local -a globals names
    local index
    for ((index = 2; index < CURRENT; index++)); do
        case "$words[index]" in
            -w|--workspace|--home|--config) globals+=("$words[index]" "$words[index+1]") ;;
        esac
    done
    names=("${(@f)$(garret $globals __complete $1 2>/dev/null)}")
    compadd -a names
    _default
}
_garret_workspaces() { local -a names; names=("${(@f)$(garret __complete workspaces 2>/dev/null)}"); compadd -a names; _default }
_garret_snapshots() { _garret_known snapshots }
_garret_branches() { _garret_known branches }
"#;

/// What fish completes beside options and commands.
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
complete -c garret -n '__fish_seen_subcommand_from rename delete export usage keep capabilities mcp' -a '(garret __complete workspaces 2>/dev/null)'
complete -c garret -n '__fish_seen_subcommand_from recover' -a '(garret __complete deleted 2>/dev/null)'
complete -c garret -n '__fish_seen_subcommand_from merge' -a '(__garret_names branches)'
complete -c garret -n '__fish_seen_subcommand_from restore diff' -a '(__garret_names snapshots)'
"#;

/// Arguments in the script for zsh, by the beginning of their line, and the function that completes them.
const ZSH_ARGUMENTS: [(&str, &str); 8] = [
    ("':branch -- ", "_garret_branches"),
    ("'::name -- The workspace", "_garret_workspaces"),
    ("'::name -- Only this workspace", "_garret_workspaces"),
    ("'::path -- The workspace", "_garret_workspaces"),
    ("'::from -- The earlier point", "_garret_snapshots"),
    ("'::to -- The later point", "_garret_snapshots"),
    ("'::first -- A snapshot", "_garret_snapshots"),
    ("':name -- The name of the branch", "_garret_branches"),
];

#[derive(Debug, Args)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Outcome {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Cli::command(), "garret", &mut script);
        let script = String::from_utf8(script).expect("completions are text");
        let text = match self.shell {
            Shell::Bash => format!("{script}{BASH_NAMES}"),
            Shell::Zsh => zsh(&script),
            Shell::Fish => format!("{script}{FISH_NAMES}"),
            _ => script,
        };
        Ok(Report::done(text, serde_json::json!({"shell": self.shell.to_string()})))
    }
}

/// The script for zsh, in which names are completed by functions of ours. They stand after the first line, which must stay the first.
fn zsh(script: &str) -> String {
    let named = script
        .replace(":WORKSPACE:_default", ":WORKSPACE:_garret_workspaces")
        .replace(":POINT:_default", ":POINT:_garret_snapshots");
    let named: String = named.split_inclusive('\n').map(zsh_line).collect();
    match named.split_once('\n') {
        Some((first, rest)) => format!("{first}\n{ZSH_NAMES}{rest}"),
        None => named,
    }
}

fn zsh_line(line: &str) -> String {
    let found = ZSH_ARGUMENTS.iter().find(|(start, _)| line.starts_with(start));
    match found {
        Some((_, function)) => line.replace(":_default'", &format!(":{function}'")),
        None => line.to_owned(),
    }
}
