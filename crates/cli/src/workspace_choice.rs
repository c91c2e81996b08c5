//! The choice of the workspace that `-w` means, as a pure function of its text and the configuration.

use garret::path::{escape_unprintable, quote};
use garret::{Config, Error, ErrorKind, Result, split_point};

/// The workspace that `-w` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WorkspaceChoice {
    /// A storage by its URL.
    Url(String),
    /// A workspace of the configuration file, as it is or as it was at a point.
    Configured(String, Option<String>),
    /// A workspace of the home, or else a directory; only the home can tell.
    HomeOrDirectory {
        /// The name to look for in the home; `None` if the text cannot be a name.
        name: Option<String>,
        /// The point, if the home has a workspace of that name.
        point: Option<String>,
        /// The directory, if the home has no such workspace.
        directory: String,
    },
}

/// Reads `-w`: a URL by its kind and colon, else a configured name, else a name of the home, else a directory. The part
/// after an `@` is a point, unless the whole text is configured. A text that looks like a path is never a name,
/// whatever is configured.
pub(crate) fn choose_workspace(text: &str, config: Option<&Config>) -> WorkspaceChoice {
    let is_configured =
        |name: &str| may_be_name(name) && config.is_some_and(|config| config.workspaces.contains_key(name));
    let (name, point) = split_point(text);
    let point = point.map(str::to_owned);
    if is_url(text) {
        WorkspaceChoice::Url(text.to_owned())
    } else if is_configured(text) {
        // Before directories, so that a configured name keeps its policy; `./name` means the directory.
        WorkspaceChoice::Configured(text.to_owned(), None)
    } else if is_configured(name) {
        WorkspaceChoice::Configured(name.to_owned(), point)
    } else {
        WorkspaceChoice::HomeOrDirectory {
            name: may_be_name(name).then(|| name.to_owned()),
            point,
            directory: text.to_owned(),
        }
    }
}

/// Whether a configuration or the home could have a workspace of that name. A text that looks like a path is a path.
fn may_be_name(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('.') && !text.contains('/')
}

/// Whether a configuration could have the workspace that `-w` names. If not, no file need be searched.
pub(crate) fn may_be_configured(text: &str) -> bool {
    let (name, _) = split_point(text);
    !is_url(text) && (may_be_name(text) || may_be_name(name))
}

/// Refuses a name in a configuration that `-w` could never mean.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let shown = garret::path::quote(name);
    if may_be_name(name) && !is_url(name) {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "{shown} cannot be the name of a workspace: it looks like a path or a URL"
        ))
        .hint("choose a name without `/` and `:` that does not begin with `.`"))
    }
}

fn is_url(text: &str) -> bool {
    let is_kind = |kind: &str| {
        !kind.is_empty()
            && kind
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.split_once(':').is_some_and(|(kind, _)| is_kind(kind))
}

/// The known workspaces, for the hints of errors and for completions.
#[derive(Debug, Default)]
pub(crate) struct KnownWorkspaces<'a> {
    /// The configuration file.
    pub(crate) config: Option<&'a Config>,
    /// The workspaces of the home.
    pub(crate) home: Vec<String>,
    /// The deleted workspaces of the home that can be recovered.
    pub(crate) deleted: Vec<String>,
}

/// Makes the error for a text that names nothing: it is neither configured, nor in the home, nor a directory.
pub(crate) fn unknown_workspace_error(text: &str, known: &KnownWorkspaces<'_>) -> Error {
    let configured = known.config.into_iter().flat_map(|config| config.workspaces.keys());
    let names: Vec<&str> = configured.chain(&known.home).map(String::as_str).collect();
    let listed = || {
        names
            .iter()
            .map(|name| escape_unprintable(name))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let (name, _) = split_point(text);
    let shown = garret::path::quote(text);
    if !may_be_name(name) {
        return Error::invalid(format!("there is no directory {shown}"))
            .hint("check the path, or make the directory first");
    }
    let error = Error::invalid(format!(
        "{shown} is neither a workspace of garret.toml or the home, nor a storage URL, nor a directory"
    ));
    if known.deleted.iter().any(|deleted| deleted == name) {
        return error.hint(format!(
            "it was deleted; `garret recover {}` brings it back",
            escape_unprintable(name)
        ));
    }
    match (garret::shape::nearest_name(name, names.iter().copied()), names.len()) {
        (Some(near), _) => error.hint(format!("did you mean {}?", quote(near))),
        (None, 0) => error.hint("create a workspace with `garret create NAME`, or create the directory first"),
        (None, 1..=10) => error.hint(format!("known workspaces: {}", listed())),
        (None, _) => error.hint("`garret list` shows the workspaces of the home"),
    }
}

/// Returns the name in `filestore:NAME`; `None` for another URL.
pub(crate) fn filestore_name(url: &str) -> Option<&str> {
    url.strip_prefix("filestore:").filter(|name| !name.is_empty())
}

/// Makes the error for `filestore:NAME` if the home has no workspace of that name.
pub(crate) fn unknown_filestore_error(name: &str, known: &KnownWorkspaces<'_>) -> Error {
    // The workspace is not made silently, because the name may be mistyped.
    let message = format!("the home has no workspace {}", quote(name));
    let error = Error::new(ErrorKind::NotFound, message);
    let make = format!("`garret create {}` makes it", escape_unprintable(name));
    if known.deleted.iter().any(|deleted| deleted == name) {
        return error.hint(format!(
            "it was deleted; `garret recover {}` brings it back",
            escape_unprintable(name)
        ));
    }
    match garret::shape::nearest_name(name, known.home.iter().map(String::as_str)) {
        Some(near) => error.hint(format!("did you mean {}? {make}", quote(near))),
        None => error.hint(make),
    }
}

/// Returns the workspace that `-w` or the argument names; refuses both together.
pub(crate) fn flag_or_argument(flag: Option<&str>, argument: Option<&str>) -> Result<Option<String>> {
    match (flag, argument) {
        (Some(_), Some(_)) => Err(given_twice_error()),
        (flag, argument) => Ok(argument.or(flag).map(str::to_owned)),
    }
}

/// Returns the name of a workspace of the home and the argument after the name. With `-w`, the first argument is
/// already the one after the name.
pub(crate) fn name_and_rest<'a>(
    flag: Option<&'a str>,
    first: Option<&'a str>,
    second: Option<&'a str>,
) -> Result<(&'a str, Option<&'a str>)> {
    match (flag, first, second) {
        (None, Some(name), rest) | (Some(name), rest, None) => Ok((name, rest)),
        (Some(_), _, Some(_)) => Err(given_twice_error()),
        (None, None, _) => Err(unnamed_error()),
    }
}

/// Returns the name of a workspace of the home, as an argument or by `-w`.
pub(crate) fn required_name(flag: Option<&str>, argument: Option<&str>) -> Result<String> {
    flag_or_argument(flag, argument)?.ok_or_else(unnamed_error)
}

fn given_twice_error() -> Error {
    Error::invalid("the workspace is given twice").hint("leave out -w or the argument")
}

fn unnamed_error() -> Error {
    Error::invalid("no workspace is named").hint("give the name of one, as an argument or by -w")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        Config::from_toml("[workspaces.notes]\nstorage = 'memory:'\n[workspaces.'a@b']\nstorage = 'memory:'\n").unwrap()
    }

    fn other(name: Option<&str>, point: Option<&str>, directory: &str) -> WorkspaceChoice {
        WorkspaceChoice::HomeOrDirectory {
            name: name.map(str::to_owned),
            point: point.map(str::to_owned),
            directory: directory.to_owned(),
        }
    }

    #[test]
    fn a_url_is_known_by_its_kind() {
        assert_eq!(
            choose_workspace("memory:", None),
            WorkspaceChoice::Url("memory:".into())
        );
        assert_eq!(
            choose_workspace("local:/a b", None),
            WorkspaceChoice::Url("local:/a b".into())
        );
        assert_eq!(choose_workspace("./a:b", None), other(None, None, "./a:b"));
    }

    #[test]
    fn a_configured_name_wins_over_the_home_and_a_directory() {
        assert_eq!(
            choose_workspace("notes", Some(&config())),
            WorkspaceChoice::Configured("notes".into(), None)
        );
        assert_eq!(
            choose_workspace("./notes", Some(&config())),
            other(None, None, "./notes")
        );
        assert_eq!(choose_workspace("notes", None), other(Some("notes"), None, "notes"));
    }

    #[test]
    fn what_looks_like_a_path_or_a_url_is_never_a_configured_name() {
        for text in [".", "..", "./x", "../x", "a/b", "/", "/etc", "a/", ".x", "~/x", ""] {
            let mut config = config();
            let own = config.workspaces["notes"].clone();
            config.workspaces.insert(text.to_owned(), own);
            assert_eq!(choose_workspace(text, Some(&config)), other(None, None, text), "{text}");
            assert!(!may_be_configured(text) && check_name(text).is_err(), "{text}");
        }
        assert_eq!(choose_workspace(".@3", Some(&config())), other(None, Some("3"), ".@3"));
        for url in ["memory:", "local:/etc", "s3://b/p"] {
            assert!(!may_be_configured(url) && check_name(url).is_err(), "{url}");
        }
        for name in ["notes", "a@b", "notes@before", "notes@feature/x"] {
            assert!(may_be_configured(name), "{name}");
        }
        assert!(check_name("a.b-c_1").is_ok());
    }

    #[test]
    fn what_follows_an_at_sign_is_a_point() {
        let before = Some("before".to_owned());
        assert_eq!(
            choose_workspace("notes@before", Some(&config())),
            WorkspaceChoice::Configured("notes".into(), before)
        );
        assert_eq!(
            choose_workspace("a@b", Some(&config())),
            WorkspaceChoice::Configured("a@b".into(), None)
        );
        assert_eq!(choose_workspace("x@3", None), other(Some("x"), Some("3"), "x@3"));
        assert_eq!(choose_workspace("../x@3", None), other(None, Some("3"), "../x@3"));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let config = config();
        let known = KnownWorkspaces {
            config: Some(&config),
            home: vec!["diary".into()],
            deleted: vec!["old".into()],
        };
        let hint = |text: &str| unknown_workspace_error(text, &known).hint_text().to_owned();
        assert_eq!(hint("note"), "did you mean `notes`?");
        assert_eq!(hint("dairy@before"), "did you mean `diary`?");
        assert_eq!(hint("old"), "it was deleted; `garret recover old` brings it back");
        assert_eq!(hint("zzzzzzzz"), "known workspaces: a@b, notes, diary");
        let none = unknown_workspace_error("zzzzzzzz", &KnownWorkspaces::default());
        assert!(none.hint_text().contains("garret create"), "{none}");
    }

    #[test]
    fn a_name_that_the_home_does_not_have_is_answered_with_the_nearest_and_how_to_make_it() {
        let known = KnownWorkspaces {
            home: vec!["diary".into()],
            deleted: vec!["old".into()],
            ..KnownWorkspaces::default()
        };
        let hint = |name: &str| unknown_filestore_error(name, &known).hint_text().to_owned();
        assert_eq!(hint("dairy"), "did you mean `diary`? `garret create dairy` makes it");
        assert_eq!(hint("old"), "it was deleted; `garret recover old` brings it back");
        assert_eq!(unknown_filestore_error("x", &known).kind(), ErrorKind::NotFound);
        assert_eq!(filestore_name("filestore:notes"), Some("notes"));
        assert_eq!(filestore_name("local:notes"), None);
    }

    #[test]
    fn names_that_a_file_gives_cannot_write_to_the_terminal() {
        let config = Config::from_toml("[workspaces.\"a\\u001b[2Jb\"]\nstorage = 'memory:'\n").unwrap();
        let known = KnownWorkspaces {
            config: Some(&config),
            ..KnownWorkspaces::default()
        };
        assert_eq!(
            unknown_workspace_error("zzzzzzzz", &known).hint_text(),
            "known workspaces: a\\u{1b}[2Jb"
        );
    }

    #[test]
    fn two_workspaces_are_one_too_many() {
        assert!(flag_or_argument(Some("a"), Some("b")).is_err());
        assert_eq!(flag_or_argument(None, Some("b")).unwrap().as_deref(), Some("b"));
        assert!(name_and_rest(Some("a"), Some("b"), Some("c")).is_err());
        assert!(required_name(Some("a"), Some("b")).is_err());
    }

    #[test]
    fn the_name_that_an_option_gives_is_not_looked_for_among_the_arguments() {
        assert_eq!(name_and_rest(Some("a"), Some("3"), None).unwrap(), ("a", Some("3")));
        assert_eq!(name_and_rest(Some("a"), None, None).unwrap(), ("a", None));
        assert_eq!(name_and_rest(None, Some("a"), Some("3")).unwrap(), ("a", Some("3")));
        assert_eq!(required_name(Some("a"), None).unwrap(), "a");
        assert!(name_and_rest(None, None, None).is_err() && required_name(None, None).is_err());
    }
}
