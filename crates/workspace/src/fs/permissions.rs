//! The permission bits that a caller may set.

use garret_core::{Error, Result};

/// The bits for owner, group and others. The bits above them (set-user-id, set-group-id, sticky) can give a program
/// rights that the user who starts it does not have; on `local`, such a program would be on the host.
const PERMISSIONS: u32 = 0o777;

/// Returns the bits unchanged, or `invalid` if they are more than permissions.
pub(crate) fn check_mode(mode: Option<u32>) -> Result<Option<u32>> {
    match mode {
        Some(bits) if bits & !PERMISSIONS != 0 => Err(Error::invalid(format!(
            "the mode {bits:o} has bits beyond the permissions of a file: set-user-id, set-group-id and sticky bits are never set"
        ))
        .hint("give a mode up to 777, such as 644 or 755")),
        mode => Ok(mode),
    }
}
