//! The names of the branches on which the work of commands is put where others were at the same files. By its name such a branch is known
//! for what it is, whatever the ids of a workspace look like: made and recognised here, and given to no other branch.

use std::hash::{DefaultHasher, Hash, Hasher};

use garret_core::path::quote;
use garret_core::{Error, Result};

/// The operations whose work may go on a branch.
const OPERATIONS: [&str; 6] = [
    "run",
    "start",
    "run_code",
    "create_code_context",
    "run_in_code_context",
    "commit_leftover",
];
const DIGITS: usize = 12;

/// The name of the branch for the work of `operation`; `id` tells it from others.
pub(super) fn name_aside(operation: &str, id: &str) -> String {
    const BITS: u64 = (1 << (4 * DIGITS)) - 1;
    let mut hasher = DefaultHasher::new();
    id.hash(&mut hasher);
    format!("{operation}-{:0DIGITS$x}", hasher.finish() & BITS)
}

/// Whether this is the name of a branch on which the work of a command was put: those are open to whoever may run commands.
pub fn is_branch_of_command(name: &str) -> bool {
    name.rsplit_once('-').is_some_and(|(operation, id)| {
        let is_id = id.len() == DIGITS && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id && OPERATIONS.contains(&operation)
    })
}

/// Refuses such a name for any other branch.
pub(crate) fn check_branch_name(name: &str) -> Result<()> {
    match is_branch_of_command(name) {
        false => Ok(()),
        true => {
            let message = format!("{} is reserved for branches with the effects of a command", quote(name));
            Err(Error::invalid(message).hint("choose another name"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_branch_is_known_again_whatever_the_ids_are() {
        for operation in OPERATIONS {
            for id in ["", "id-7", "0192f0c1-7b5a-7000-8000-2bb56b1b6e94", "naïve"] {
                let name = name_aside(operation, id);
                assert!(is_branch_of_command(&name), "{name}");
                assert!(check_branch_name(&name).is_err(), "{name}");
            }
        }
        assert_ne!(name_aside("run", "id-7"), name_aside("run", "id-8"));
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
