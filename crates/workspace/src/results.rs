//! The results of all operations, in the one shape that every front door carries: the Rust API returns these types, the
//! tools return them as data, and the command line prints them with `--json`.
//!
//! The types that the contract of the history has already, such as [`Change`], are results as they are. The same name
//! means the same thing in each result:
//!
//! | field | meaning |
//! |---|---|
//! | `change` | the id of a change |
//! | `number` | the number of a change in its journal |
//! | `paths`, `path_count` | the first of the changed paths, each after `+` (created), `~` (changed) or `-` (deleted), and the number of all |
//! | `at` | a time in RFC 3339 |
//! | `actor`, `operation` | who made a change, and with which operation |
//! | `dry_run` | present and true in the result of a dry run, which writes nothing |
//! | `next_cursor`, `next_offset` | present if there is another page, which the argument `cursor` or `offset` requests |

mod code;
mod commands;
mod files;
mod history;
mod search;

pub use code::*;
pub(crate) use commands::unenforced_guards;
pub use commands::*;
pub use files::*;
pub use history::*;
pub use search::*;

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
