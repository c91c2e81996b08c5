//! Names of conflict branches. The effects of a command go on such a branch if others changed the same files meanwhile.
//! These names are made and recognised here, whatever the ids of a workspace look like, and no other branch may have
//! one.

use std::hash::{DefaultHasher, Hash, Hasher};

use garret_core::path::quote;
use garret_core::{Error, Result};

/// The operations whose effects may go on a conflict branch.
const OPERATIONS: [&str; 7] = [
    "run",
    "start",
    "shell",
    "run_code",
    "create_code_context",
    "run_in_code_context",
    "commit_leftover",
];
const DIGITS: usize = 12;

/// Returns the name of a conflict branch for the effects of `operation`; `id` makes it unique.
pub(in crate::shell) fn conflict_branch_name(operation: &str, id: &str) -> String {
    const BITS: u64 = (1 << (4 * DIGITS)) - 1;
    // Ids have any form that an embedder chooses, so a hash gives the fixed form by which the name is recognised.
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("{operation}-{:0DIGITS$x}", hasher.finish() & BITS)
}

/// Whether this is the name of a conflict branch with the effects of a command. Everybody who may run commands may open
/// such a branch.
pub fn is_branch_of_command(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(operation, id)| {
        let is_id = id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id && OPERATIONS.contains(&operation)
    })
}

/// Refuses the name of a conflict branch for any other branch.
pub(crate) fn check_branch_name(name: &str) -> Result<()> {
    if !is_branch_of_command(name) {
        return Ok(());
    }
    let message = format!("{} is reserved for branches with the effects of a command", quote(name));
    Err(Error::invalid(message).hint("choose another name"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_branch_is_known_again_whatever_the_ids_are() {
        for operation in OPERATIONS {
            for id in ["", "id-7", "0192f0c1-7b5a-7000-8000-2bb56b1b6e94", "naïve"] {
                let name = conflict_branch_name(operation, id);
                assert!(is_branch_of_command(&name), "{name}");
                assert!(check_branch_name(&name).is_err(), "{name}");
            }
        }
        assert_ne!(conflict_branch_name("run", "id-7"), conflict_branch_name("run", "id-8"));
    }

    #[test]
    fn any_other_name_is_taken_for_no_branch_of_a_command() {
        for name in [
            "run-tests",
            "run",
            "2bb56b1b6e94",
            "mine-2bb56b1b6e94",
            "run-2bb56b1b6e9",
            "run-2bb56b1b6e94-x",
        ] {
            assert!(!is_branch_of_command(name), "{name}");
            check_branch_name(name).unwrap();
        }
    }
}
