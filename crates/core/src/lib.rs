//! The contract of Garret: paths, errors, storages, policies and events.
//!
//! Everything above (workspaces, tools, front doors) and everything below (storages, sandboxes) meets here and nowhere else. This crate
//! does no I/O: the memory storage is its reference implementation, decisions are pure functions, and time and identity come in through
//! traits.

pub mod access_limits;
pub mod bench;
pub mod capability;
pub mod config;
mod config_options;
pub mod content;
pub mod derived_files;
pub mod error;
pub mod event;
pub mod exclusions;
pub mod history;
pub mod listing;
pub mod memory;
pub mod network;
pub mod path;
pub mod path_tree;
pub mod policy;
mod port_policy;
pub mod reference;
pub mod registry;
pub mod retention;
pub mod sandbox;
pub mod shape;
pub mod shell_policy;
pub mod storage;
pub mod time;
pub mod toolchain_choice;
pub mod version;
pub mod widening;

pub use access_limits::{AccessLimits, LocalContent};
pub use bench::{Bench, BenchState, LayerOutcome, TurnAttempt, TurnGuard, TurnHolder};
pub use capability::{Capabilities, DeclaredCapability, SnapshotPolicy};
pub use config::{Config, StorageConfig, ToolNaming, ToolsConfig, WorkspaceConfig};
pub use config_options::{OptionEdit, OptionValue};
pub use content::{Content, ContentReader, ContentSource, find_hard_links};
pub use derived_files::DerivedFiles;
pub use error::{Error, ErrorKind, Result};
pub use event::{Actor, Event, EventFormat, EventOutcome, EventSink, EventWriter, MemoryEvents, NoEvents};
pub use exclusions::Exclusions;
pub use history::{
    Branch, Change, ChangeKind, ChangeMade, ChangePlan, ChangedPath, ChangesOptions, ClashReason, ContentAddress,
    History, HistoryMode, HistoryOperation, MergeInput, MergePoint, MergeSide, NewBranch, OpenedBranch, PathChange,
    PathClash, PathExpectation, PathImage, PathPut, PathVersion, PlacedEntry, Point, PutBatch, RestoreTarget,
    ReversalOutcome, Snapshot, SnapshotOptions, SnapshotSize, UndoSelection,
};
pub use listing::{FullListing, ListAllOptions, list_all};
pub use memory::MemoryStorage;
pub use network::{
    AddressClass, HostName, HostRule, HostSecret, NamedNetwork, NetworkChoice, NetworkLog, NetworkRecord,
    NetworkRefusal, NetworkRequest, NetworkRules, PendingRequest, RefusedHost, RequestedHost, RuleMatch, RuleSource,
};
pub use path::{EntryPath, OnEscape, WsPath};
pub use path_tree::PathTree;
pub use policy::{Access, FsPolicy, FsRestriction, FsRules};
pub use port_policy::PortPolicy;
pub use reference::Reference;
pub use registry::{MemoryFactory, OpenContext, OpenedStorage, StorageFactory, StorageRegistry};
pub use retention::RetentionLimits;
pub use sandbox::{
    ANSWER_DESCRIPTOR, CallOptions, CallTimeLimits, CapturedStream, Chunk, CommandExit, CommandOutput, CommandProgram,
    CommandStdin, CommandTerminal, DroppedEntry, Effect, EffectLimits, EffectTally, Effects, EffectsMark, ExitCause,
    GitAuthor, Guard, GuardStatus, HomeUsage, HostView, InputSource, InputStream, Layer, Limits, MARK_DESCRIPTOR,
    Masker, MountAccess, Network, NoHostView, OpenSandbox, OutputCollector, OutputStream, Process, ReachedLimit,
    ReadFilter, ResourceLimit, ResourceUsage, Sandbox, SandboxCommand, SandboxMount, SandboxRequest, Secrets, Signal,
    TerminalSize, Visibility, VisibleParts, base_environment, check_mount_target, describe_raising, no_marks_error,
    no_terminal_error, shared_network_error, trim_partial_start,
};
pub use shell_policy::{CodePolicy, EffectsMode, Language, ShellLimits, ShellPolicy};
pub use storage::{
    Batch, DirectoryEntry, DirectoryHandle, Durability, Entry, EntryAlteration, EntryKind, FileIdentity, Follow,
    HardLinkedFile, ListOptions, ListPage, Mutation, MutationOutcome, NewEntry, OpenFile, Origin, ReadOptions,
    ReadResult, Stat, StatOptions, Storage, StorageInfo,
};
pub use time::{Clock, CountedIds, FixedClock, Ids, RandomIds, SystemClock, Timestamp};
pub use toolchain_choice::{ToolchainChoice, ToolchainName};
pub use version::{Precondition, Version};
pub use widening::WideningSetting;
