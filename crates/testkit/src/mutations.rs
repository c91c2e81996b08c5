//! Mutations in a word, for tests: paths as text, the options that are not the point left at their usual values.

use bytes::Bytes;
use garret_core::{Content, Mutation, Precondition, WsPath};

/// The path that `text` spells; panics where it spells none.
pub fn path(text: &str) -> WsPath {
    WsPath::parse(text).unwrap_or_else(|error| panic!("{text:?} is no path: {error}"))
}

/// A write that makes the directories above.
pub fn write(at: &str, content: impl Into<Content>) -> Mutation {
    Mutation::write(path(at), content)
}

/// A write that makes nothing above.
pub fn write_beside(at: &str, content: impl Into<Content>) -> Mutation {
    Mutation::Write {
        path: path(at),
        content: content.into(),
        precondition: Precondition::Any,
        mode: None,
        parents: false,
    }
}

/// A write on a condition.
pub fn write_if(at: &str, content: impl Into<Content>, precondition: Precondition) -> Mutation {
    Mutation::Write {
        path: path(at),
        content: content.into(),
        precondition,
        mode: None,
        parents: true,
    }
}

/// A write that sets the mode.
pub fn write_mode(at: &str, content: impl Into<Content>, mode: u32) -> Mutation {
    Mutation::Write {
        path: path(at),
        content: content.into(),
        precondition: Precondition::Any,
        mode: Some(mode),
        parents: true,
    }
}

/// An append to a file that exists.
pub fn append(at: &str, content: impl Into<Bytes>) -> Mutation {
    append_if(at, content, Precondition::Any)
}

/// An append, on a condition, to a file that exists.
pub fn append_if(at: &str, content: impl Into<Bytes>, precondition: Precondition) -> Mutation {
    Mutation::Append {
        path: path(at),
        content: content.into(),
        precondition,
        create: false,
    }
}

/// An append that makes a missing file.
pub fn append_or_create(at: &str, content: impl Into<Bytes>) -> Mutation {
    Mutation::Append {
        path: path(at),
        content: content.into(),
        precondition: Precondition::Any,
        create: true,
    }
}

/// A removal of a file, a link or an empty directory.
pub fn remove(at: &str) -> Mutation {
    remove_if(at, Precondition::Any)
}

/// A removal on a condition.
pub fn remove_if(at: &str, precondition: Precondition) -> Mutation {
    Mutation::Remove {
        path: path(at),
        recursive: false,
        precondition,
    }
}

/// A removal with everything below.
pub fn remove_tree(at: &str) -> Mutation {
    Mutation::Remove {
        path: path(at),
        recursive: true,
        precondition: Precondition::Any,
    }
}

/// A move that replaces nothing and makes no directory.
pub fn rename(from: &str, to: &str) -> Mutation {
    Mutation::Rename {
        from: path(from),
        to: path(to),
        overwrite: false,
        parents: false,
    }
}

/// A move that replaces what it may.
pub fn rename_over(from: &str, to: &str) -> Mutation {
    Mutation::Rename {
        from: path(from),
        to: path(to),
        overwrite: true,
        parents: false,
    }
}

/// A move that makes the directories above.
pub fn rename_into(from: &str, to: &str) -> Mutation {
    Mutation::Rename {
        from: path(from),
        to: path(to),
        overwrite: false,
        parents: true,
    }
}

/// A copy that replaces nothing and makes no directory.
pub fn copy(from: &str, to: &str) -> Mutation {
    Mutation::Copy {
        from: path(from),
        to: path(to),
        overwrite: false,
        parents: false,
    }
}

/// A copy that replaces a file.
pub fn copy_over(from: &str, to: &str) -> Mutation {
    Mutation::Copy {
        from: path(from),
        to: path(to),
        overwrite: true,
        parents: false,
    }
}

/// A copy that makes the directories above.
pub fn copy_into(from: &str, to: &str) -> Mutation {
    Mutation::Copy {
        from: path(from),
        to: path(to),
        overwrite: false,
        parents: true,
    }
}

/// A new directory in one that exists.
pub fn make_dir(at: &str) -> Mutation {
    Mutation::MakeDir {
        path: path(at),
        parents: false,
    }
}

/// A directory, with those above; one that exists is fine.
pub fn make_dirs(at: &str) -> Mutation {
    Mutation::MakeDir {
        path: path(at),
        parents: true,
    }
}

/// A symbolic link.
pub fn link(at: &str, target: &str) -> Mutation {
    Mutation::Symlink {
        path: path(at),
        target: target.to_owned(),
    }
}

/// A change of mode.
pub fn set_mode(at: &str, mode: u32) -> Mutation {
    Mutation::SetMode { path: path(at), mode }
}
