//! The programs that commands find, and those of the host that they do not.

use std::collections::BTreeSet;
use std::path::Path;

use super::{FoundToolchains, is_in_system, path_from_home, user_disk};

/// A directory of the host with programs.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct ProgramDirectory {
    /// The directory, with `~` for the home directory of the user.
    pub directory: String,
    /// The names of its programs.
    pub programs: Vec<String>,
}

/// The programs outside the system that commands find, and those of the user's search path that they do not.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct CommandPrograms {
    /// The directories that commands search besides those of the system, in order.
    pub found: Vec<ProgramDirectory>,
    /// The directories of the user's search path with programs that commands do not find.
    pub not_found: Vec<ProgramDirectory>,
    /// The parts of toolchains that are left out, each with the reason.
    pub left_out: Vec<String>,
}

/// Lists the programs of the toolchains and of the search path `path`.
pub fn list_programs(found: &FoundToolchains, path: &str, home: Option<&Path>) -> CommandPrograms {
    let mut known: BTreeSet<String> = ["/usr/local/bin", "/usr/bin", "/bin", "/usr/sbin", "/usr/local/sbin"]
        .into_iter()
        .flat_map(|directory| user_disk::program_names(Path::new(directory)))
        .collect();
    let mut listed = CommandPrograms::default();
    for directory in found.search_path.iter().filter(|directory| !is_in_system(directory)) {
        let programs = user_disk::program_names(directory);
        known.extend(programs.iter().cloned());
        push_directory(&mut listed.found, directory, programs, home);
    }
    for directory in path
        .split(':')
        .map(Path::new)
        .filter(|directory| directory.is_absolute())
    {
        let resolved = user_disk::resolve_links(directory).unwrap_or_default();
        let is_searched = [directory, &resolved]
            .iter()
            .any(|one| found.search_path.iter().any(|path| path == one));
        if is_searched || is_in_system(directory) {
            continue;
        }
        // The same name elsewhere is another version, which commands find instead.
        let mut programs = user_disk::program_names(directory);
        programs.retain(|name| known.insert(name.clone()));
        push_directory(&mut listed.not_found, directory, programs, home);
    }
    let left_out = found.left_out.iter().map(|one| {
        let path = path_from_home(&one.path, home);
        format!("{path} ({}): {}", one.toolchain.as_str(), one.reason.as_str())
    });
    listed.left_out = left_out.collect();
    listed
}

fn push_directory(list: &mut Vec<ProgramDirectory>, directory: &Path, programs: Vec<String>, home: Option<&Path>) {
    if !programs.is_empty() {
        list.push(ProgramDirectory {
            directory: path_from_home(directory, home),
            programs,
        });
    }
}
