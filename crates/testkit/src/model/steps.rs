//! Random steps over few names, so that they meet.

use bytes::Bytes;
use garret_core::Follow;
use proptest::collection::vec;
use proptest::prelude::*;

/// The condition of a step, in words that need no version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// No condition.
    Any,
    /// Nothing is there.
    Absent,
    /// The file that is there now.
    Current,
    /// A file that was there once, or never.
    Stale,
}

/// A mutation with paths as text.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs, reason = "the fields are those of garret_core::Mutation")]
pub enum Step {
    Write {
        path: String,
        content: Bytes,
        mode: Option<u32>,
        parents: bool,
        wanted: Wanted,
    },
    Append {
        path: String,
        content: Bytes,
        create: bool,
        wanted: Wanted,
    },
    Remove {
        path: String,
        recursive: bool,
        wanted: Wanted,
    },
    Rename {
        from: String,
        to: String,
        overwrite: bool,
        parents: bool,
    },
    Copy {
        from: String,
        to: String,
        overwrite: bool,
        parents: bool,
    },
    MakeDir {
        path: String,
        parents: bool,
    },
    Symlink {
        path: String,
        target: String,
    },
    SetMode {
        path: String,
        mode: u32,
    },
}

/// Batches of steps with how links are treated.
pub type Sequence = Vec<(Vec<Step>, Follow)>;

/// Sequences of `length` batches, most of one step, with or without symbolic links.
pub fn sequences(length: usize, with_links: bool) -> impl Strategy<Value = Sequence> {
    let batch = prop_oneof![
        6 => vec(step(with_links), 1),
        2 => vec(step(with_links), 2..5),
        1 => vec(step(with_links), 2..6).prop_map(doomed),
        1 => teardown(with_links),
    ];
    let follow = prop_oneof![5 => Just(Follow::Inside), 1 => Just(Follow::Never)];
    vec((batch, follow), 1..=length)
}

/// A file made, and taken down with the directories above it one by one, then something else; half of these batches are doomed.
fn teardown(with_links: bool) -> impl Strategy<Value = Vec<Step>> {
    let write = |path: &str| Step::Write {
        path: path.to_owned(),
        content: Bytes::from_static(b"torn down"),
        mode: None,
        parents: true,
        wanted: Wanted::Any,
    };
    let remove = |path: &str| Step::Remove {
        path: path.to_owned(),
        recursive: false,
        wanted: Wanted::Any,
    };
    (path(), any::<bool>(), any::<bool>(), step(with_links)).prop_map(move |(path, makes, fails, then)| {
        let cuts = path.match_indices('/').map(|(slash, _)| slash);
        let mut ends: Vec<_> = cuts.chain([path.len()]).collect();
        ends.reverse();
        let made = makes.then(|| write(&path));
        let steps = made.into_iter().chain(ends.iter().map(|end| remove(&path[..*end])));
        let steps: Vec<_> = steps.chain([then]).collect();
        if fails { doomed(steps) } else { steps }
    })
}

/// The steps with one more that always fails, so that whatever worked must be taken back.
fn doomed(mut steps: Vec<Step>) -> Vec<Step> {
    steps.push(Step::Remove {
        path: "never/was".to_owned(),
        recursive: true,
        wanted: Wanted::Any,
    });
    steps
}

fn path() -> impl Strategy<Value = String> {
    let name = || prop_oneof![4 => Just("a"), 3 => Just("b"), 1 => Just("a-b"), 1 => Just("-rf")];
    prop_oneof![
        30 => vec(name(), 1..=3).prop_map(|names| names.join("/")),
        1 => Just(String::new()),
    ]
}

fn target() -> impl Strategy<Value = String> {
    prop_oneof![
        4 => Just("a".to_owned()),
        3 => Just("b".to_owned()),
        2 => Just("a/b".to_owned()),
        2 => Just("../a".to_owned()),
        1 => Just("..".to_owned()),
        1 => Just(".".to_owned()),
        1 => Just("../../b".to_owned()),
        1 => Just("/etc".to_owned()),
        1 => Just("./b//a".to_owned()),
    ]
}

fn content() -> impl Strategy<Value = Bytes> {
    prop_oneof![
        3 => "[xyz]{0,4}".prop_map(Bytes::from),
        1 => vec(any::<u8>(), 0..600).prop_map(Bytes::from),
    ]
}

fn wanted() -> impl Strategy<Value = Wanted> {
    prop_oneof![6 => Just(Wanted::Any), 1 => Just(Wanted::Absent), 2 => Just(Wanted::Current), 1 => Just(Wanted::Stale)]
}

/// Modes that let the owner in, so that a test without privileges can go on.
fn mode() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0o700), Just(0o755), Just(0o777), Just(0o750)]
}

fn step(with_links: bool) -> BoxedStrategy<Step> {
    let write = (
        path(),
        content(),
        proptest::option::weighted(0.2, mode()),
        any::<bool>(),
        wanted(),
    )
        .prop_map(|(path, content, mode, parents, wanted)| Step::Write {
            path,
            content,
            mode,
            parents,
            wanted,
        });
    let append =
        (path(), content(), any::<bool>(), wanted()).prop_map(|(path, content, create, wanted)| Step::Append {
            path,
            content,
            create,
            wanted,
        });
    let remove = (path(), any::<bool>(), wanted()).prop_map(|(path, recursive, wanted)| Step::Remove {
        path,
        recursive,
        wanted,
    });
    let rename =
        (path(), path(), any::<bool>(), any::<bool>()).prop_map(|(from, to, overwrite, parents)| Step::Rename {
            from,
            to,
            overwrite,
            parents,
        });
    let copy = (path(), path(), any::<bool>(), any::<bool>()).prop_map(|(from, to, overwrite, parents)| Step::Copy {
        from,
        to,
        overwrite,
        parents,
    });
    let make_dir = (path(), any::<bool>()).prop_map(|(path, parents)| Step::MakeDir { path, parents });
    let symlink = (path(), target()).prop_map(|(path, target)| Step::Symlink { path, target });
    let set_mode = (path(), mode()).prop_map(|(path, mode)| Step::SetMode { path, mode });
    let plain = prop_oneof![8 => write, 3 => append, 3 => remove, 5 => rename, 3 => copy, 3 => make_dir, 1 => set_mode];
    if with_links {
        prop_oneof![6 => plain, 1 => symlink].boxed()
    } else {
        plain.boxed()
    }
}
