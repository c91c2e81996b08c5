//! The contract of Garret: paths, errors, storages, policies and events.
//!
//! Everything above (workspaces, tools, front doors) and everything below (storages, sandboxes) meets here and nowhere else. This crate
//! does no I/O: the memory storage is its reference implementation, decisions are pure functions, and time and identity come in through
//! traits.

pub mod bench;
pub mod capability;
pub mod config;
pub mod content;
pub mod error;
pub mod event;
pub mod exclude;
pub mod history;
pub mod keep;
pub mod listing;
pub mod memory;
pub mod path;
pub mod path_tree;
pub mod policy;
pub mod reach;
pub mod reference;
pub mod registry;
pub mod sandbox;
pub mod shape;
pub mod shell;
pub mod storage;
pub mod time;
pub mod version;
pub mod widening;

pub use bench::{Bench, BenchState, Taken, TurnAttempt, TurnGuard, TurnHolder};
pub use capability::{Capabilities, Declared, SnapshotPolicy};
pub use config::{Config, Naming, StorageConfig, ToolsConfig, WorkspaceConfig};
pub use content::{Content, ContentReader, ContentSource, other_names};
pub use error::{Error, ErrorKind, Result};
pub use event::{Actor, Event, EventFormat, EventSink, MemoryEvents, NoEvents, Outcome, WrittenEvents};
pub use exclude::Exclusions;
pub use history::{
    Branch, Change, ChangeActor, ChangeKind, ChangesOptions, Clash, ClashReason, ContentAddress, Expected, History,
    HistoryMode, Image, Making, MergePoint, Merging, NewBranch, OpenedBranch, PathChange, PathVersion, Placed, Point,
    Put, Puts, Restore, Reversed, Review, Selection, Side, Snapshot, SnapshotOptions, SnapshotSize,
};
pub use keep::Keep;
pub use listing::{ListAll, ListedAll, list_all};
pub use memory::MemoryStorage;
pub use path::{EntryPath, OnEscape, WsPath};
pub use path_tree::PathTree;
pub use policy::{Access, FsPolicy, FsRestriction, FsRules};
pub use reach::{NearContent, Reach};
pub use reference::Reference;
pub use registry::{MemoryFactory, OpenContext, Opened, StorageFactory, StorageRegistry};
pub use sandbox::{
    Captured, Chunk, Command, Dropped, Effect, EffectLimits, EffectTally, Effects, Ended, Enforced, Exit, Finished,
    Guard, HiddenPaths, InputSource, InputStream, Layer, Limit, Limits, Mark, Masker, Network, OpenSandbox, Output,
    OutputCollector, Process, Program, ReadFilter, Sandbox, SandboxRequest, Secrets, Signal, Stdin, Stream, Usage,
    Visibility,
};
pub use shell::{CodePolicy, EffectsMode, Language, ShellLimits, ShellPolicy};
pub use storage::{
    Alteration, Applied, Batch, Directory, DirectoryEntry, Durability, Entry, EntryKind, FileIdentity, Follow,
    HardLinkedFile, ListOptions, ListPage, Mutation, NewEntry, OpenFile, Origin, ReadOptions, ReadResult, Stat,
    StatOptions, Storage, StorageInfo,
};
pub use time::{Clock, CountedIds, FixedClock, Ids, RandomIds, SystemClock, Timestamp};
pub use version::{Precondition, Version};
pub use widening::WideningSetting;
