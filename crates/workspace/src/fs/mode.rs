//! Which permission bits a caller may set.

use garret_core::{Error, Result};

/// The bits for owner, group and others. Those above them (set-user-id, set-group-id, sticky) give a program rights that whoever starts
/// it does not have; on `local` such a program would lie on the host.
const PERMISSIONS: u32 = 0o777;

/// The bits as they were given, where they are permissions and nothing more.
pub(crate) fn permitted(mode: Option<u32>) -> Result<Option<u32>> {
    match mode {
        Some(bits) if bits & !PERMISSIONS != 0 => Err(Error::invalid(format!(
            "the mode {bits:o} has bits beyond the permissions of a file: set-user-id, set-group-id and sticky bits are never set"
        ))
        .hint("give a mode up to 777, such as 644 or 755")),
        mode => Ok(mode),
    }
}
