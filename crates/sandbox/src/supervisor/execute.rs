//! Executes the program of a command.

#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString};
use std::io;
use std::path::Path;

use super::protocol::{FINDING_INTERPRETER, SpawnRequest, StepFailure};
use super::sys;

const DEFAULT_SEARCH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Looks for the program on the `PATH` of its own environment and executes it; returns only if that fails.
pub(super) fn execute_by_search(arguments: &[String], spawn: &SpawnRequest) -> StepFailure {
    let not_text = || StepFailure::new("reading the arguments", io::Error::from_raw_os_error(libc::EINVAL));
    let Some(name) = arguments.first() else {
        return not_text();
    };
    let (Some(texts), Some(environment)) = (to_c_strings(arguments), environment_strings(&spawn.env)) else {
        return not_text();
    };
    // As shells do, a file without permission does not end the search; it is reported only if no other is found.
    let mut kept = StepFailure::new("executing", io::Error::from_raw_os_error(libc::ENOENT));
    for candidate in candidate_paths(name, spawn) {
        let error = execute_candidate(&candidate, &texts, &environment);
        match error.raw_os_error() {
            // The kernel gives this error, too, if the file is there and its interpreter is missing.
            Some(libc::ENOENT) if is_file(&candidate) => kept = StepFailure::new(FINDING_INTERPRETER, error),
            Some(libc::ENOENT | libc::ENOTDIR) => {}
            Some(libc::EACCES) => kept = StepFailure::new("executing", error),
            _ => return StepFailure::new("executing", error),
        }
    }
    kept
}

fn candidate_paths(name: &str, spawn: &SpawnRequest) -> Vec<CString> {
    let paths: Vec<String> = if name.contains('/') {
        vec![name.to_owned()]
    } else {
        let search = spawn.env.get("PATH").map_or(DEFAULT_SEARCH, String::as_str);
        search
            .split(':')
            .map(|directory| path_in_directory(directory, name))
            .collect()
    };
    paths.into_iter().filter_map(|path| CString::new(path).ok()).collect()
}

fn path_in_directory(directory: &str, name: &str) -> String {
    let directory = if directory.is_empty() { "." } else { directory };
    Path::new(directory).join(name).to_string_lossy().into_owned()
}

/// Executes one candidate; returns only if that fails.
fn execute_candidate(program: &CStr, arguments: &[CString], environment: &[CString]) -> io::Error {
    let error = sys::execute_program(program, arguments, environment);
    // An executable file of no known format and without an interpreter line is a script for the shell, by convention.
    if error.raw_os_error() != Some(libc::ENOEXEC) {
        return error;
    }
    let mut with_shell = vec![c"sh".to_owned(), program.to_owned()];
    with_shell.extend(arguments.iter().skip(1).cloned());
    sys::execute_program(c"/bin/sh", &with_shell, environment)
}

/// Executes the program that the words name, as a shell would; falls back to the shell if that program cannot be
/// executed, so that the user gets the shell's own message.
pub(super) fn execute_plain(words: &[String], shell: &[String], spawn: &SpawnRequest) -> StepFailure {
    let found = words.first().and_then(|name| find_executable(name, spawn));
    if let (Some(program), Some(texts)) = (found, to_c_strings(words))
        && let Some(environment) = environment_strings(&shell_environment(spawn, &program))
    {
        sys::execute_program(&program, &texts, &environment);
    }
    execute_by_search(shell, spawn)
}

/// Returns the first candidate that is an executable file.
fn find_executable(name: &str, spawn: &SpawnRequest) -> Option<CString> {
    let can_execute = |path: &CString| rustix::fs::access(path.as_c_str(), rustix::fs::Access::EXEC_OK).is_ok();
    candidate_paths(name, spawn)
        .into_iter()
        .find(|path| can_execute(path) && is_file(path))
}

fn is_file(path: &CStr) -> bool {
    rustix::fs::stat(path)
        .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::RegularFile)
}

/// Returns the environment with the variables that a shell would add to it.
fn shell_environment(spawn: &SpawnRequest, program: &CStr) -> BTreeMap<String, String> {
    let mut environment = spawn.env.clone();
    if let Ok(here) = rustix::process::getcwd(Vec::new()) {
        environment.insert("PWD".to_owned(), here.to_string_lossy().into_owned());
    }
    environment.entry("SHLVL".to_owned()).or_insert_with(|| "0".to_owned());
    environment.insert("_".to_owned(), program.to_string_lossy().into_owned());
    environment
}

fn to_c_strings(texts: &[String]) -> Option<Vec<CString>> {
    texts.iter().map(|text| CString::new(text.as_str()).ok()).collect()
}

fn environment_strings(variables: &BTreeMap<String, String>) -> Option<Vec<CString>> {
    variables
        .iter()
        .map(|(name, value)| CString::new(format!("{name}={value}")).ok())
        .collect()
}
