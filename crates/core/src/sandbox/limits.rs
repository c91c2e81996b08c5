//! Limits on the resources of a command, and on reading its effects.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Effect, Effects};
use crate::{Error, ErrorKind, PlacedEntry, Result};

/// Limits on the resources of a command; `None` for no limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time on the clock; when it is over, every process of the command is ended.
    pub wall: Option<Duration>,
    /// Time on processors.
    pub cpu: Option<Duration>,
    /// Bytes of memory.
    pub memory: Option<u64>,
    /// Processes and threads at once.
    pub processes: Option<u64>,
    /// Bytes in one file.
    pub file_size: Option<u64>,
    /// Bytes written to the layer and `/tmp` in all.
    pub written: Option<u64>,
    /// Open files of one process.
    pub open_files: Option<u64>,
    /// Paths that a command may create, change and delete, all together.
    pub changed_files: Option<u64>,
    /// Time for reading the effects of a command.
    pub reading: Option<Duration>,
    /// Bytes of output that are kept: half from its head, half from its tail.
    pub output: u64,
}

impl Limits {
    /// The time for reading the effects of a command, in addition to the time that the command itself may take.
    pub const READING_ALLOWANCE: Duration = Duration::from_secs(60);

    /// The bytes that a command may leave in addition to those that it may write. A command that is ended at its limit
    /// has written a little more than the limit, and everything that it wrote until then is kept.
    pub const READING_SLACK_BYTES: u64 = 1024 * 1024 * 1024;

    /// Returns the limits on reading the effects of a command.
    // Names are bounded by the number of entries, so that many long paths cannot fill the memory.
    pub fn effect_limits(&self) -> EffectLimits {
        let text = |entries: u64| entries.saturating_mul(EffectLimits::TEXT_BYTES_OF_ENTRY);
        EffectLimits {
            entries: self.changed_files,
            text_bytes: self.changed_files.map(text),
            content_bytes: self
                .written
                .map(|written| written.saturating_add(Self::READING_SLACK_BYTES)),
            time: self.reading,
        }
    }
}

impl Default for Limits {
    /// Enough for builds and tests, too little to harm the machine.
    fn default() -> Self {
        const MEBIBYTE: u64 = 1024 * 1024;
        const WALL: Duration = Duration::from_secs(120);
        Self {
            wall: Some(WALL),
            cpu: None,
            memory: Some(4096 * MEBIBYTE),
            processes: Some(512),
            file_size: Some(4096 * MEBIBYTE),
            written: Some(8192 * MEBIBYTE),
            open_files: Some(4096),
            changed_files: Some(200_000),
            reading: Some(WALL.saturating_add(Self::READING_ALLOWANCE)),
            output: MEBIBYTE,
        }
    }
}

/// A limit that ended a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResourceLimit {
    /// Time on the clock.
    Wall,
    /// Time on processors.
    Cpu,
    /// Memory.
    Memory,
    /// Bytes in one file.
    FileSize,
    /// Bytes written in all.
    Written,
    /// The second in which processes must stand still when they are paused.
    Pause,
}

impl ResourceLimit {
    /// Returns the limit in words, to follow "its limit of".
    pub const fn as_words(self) -> &'static str {
        match self {
            Self::Wall => "time",
            Self::Cpu => "processor time",
            Self::Memory => "memory",
            Self::FileSize => "bytes in one file",
            Self::Written => "bytes written",
            Self::Pause => "one second to stop when paused",
        }
    }
}

/// Limits on reading the effects of a command; `None` for no limit. The author of the command decides the number and
/// size of its entries, so neither says anything about the work that Garret can afford.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EffectLimits {
    /// Entries: created, changed and deleted paths.
    pub entries: Option<u64>,
    /// Bytes of all paths and all link targets, which are held in memory.
    pub text_bytes: Option<u64>,
    /// Bytes of all files. A hole counts like data, because history stores the zeros.
    pub content_bytes: Option<u64>,
    /// Time for reading all effects.
    pub time: Option<Duration>,
}

impl EffectLimits {
    /// Bytes of text that each allowed entry adds to the limit on all text.
    pub const TEXT_BYTES_OF_ENTRY: u64 = 160;

    /// Returns the error for effects that take longer to read than the limit allows.
    pub fn timeout_error(&self) -> Error {
        let seconds = self.time.unwrap_or_default().as_secs();
        effect_limit_error(
            "timeout_s",
            format!("reading the effects of the command takes longer than {seconds} s"),
        )
    }
}

/// A counter of effects against their limits. An effect over a limit is `too_large`, and the error names the limit.
#[derive(Debug, Clone, Default)]
pub struct EffectTally {
    limits: EffectLimits,
    entries: u64,
    text_bytes: u64,
    content_bytes: u64,
}

impl EffectTally {
    /// Starts a count at zero.
    pub fn new(limits: EffectLimits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Counts an entry whose path has `path_bytes` bytes.
    pub fn add_entry(&mut self, path_bytes: usize) -> Result<()> {
        self.entries += 1;
        match self.limits.entries {
            Some(most) if self.entries > most => Err(Self::too_many_entries(most)),
            _ => self.add_text(path_bytes),
        }
    }

    /// Returns the error for more entries than `most`.
    pub fn too_many_entries(most: u64) -> Error {
        effect_limit_error(
            "changed_files",
            format!("the command created, changed or deleted more than {most} paths"),
        )
    }

    /// Counts the target of a link.
    pub fn add_text(&mut self, bytes: usize) -> Result<()> {
        self.text_bytes = self.text_bytes.saturating_add(bytes as u64);
        match self.limits.text_bytes {
            Some(most) if self.text_bytes > most => Err(effect_limit_error(
                "changed_files",
                format!(
                    "the names of the paths and links that the command changed have more than {most} bytes; {} bytes are allowed for each of `changed_files`",
                    EffectLimits::TEXT_BYTES_OF_ENTRY
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Counts the content of a file, including its holes.
    pub fn add_content(&mut self, bytes: u64) -> Result<()> {
        self.content_bytes = self.content_bytes.saturating_add(bytes);
        match self.limits.content_bytes {
            Some(most) if self.content_bytes > most => Err(effect_limit_error(
                "written_mb",
                format!(
                    "the files that the command changed have more than {most} bytes, including holes of sparse files"
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Checks effects that a sandbox read without counting them.
    pub fn check_effects(limits: EffectLimits, effects: &Effects) -> Result<()> {
        let mut tally = Self::new(limits);
        effects.effects.iter().try_for_each(|effect| tally.add_effect(effect))?;
        let mut dropped = effects.dropped.iter();
        // A dropped entry does not become part of the change, but its path is held in memory like any other.
        dropped.try_for_each(|one| tally.add_text(one.path.as_bytes().len()))
    }

    fn add_effect(&mut self, effect: &Effect) -> Result<()> {
        self.add_entry(effect.path.as_bytes().len())?;
        match &effect.placed {
            PlacedEntry::File { content, .. } => self.add_content(content.len()),
            PlacedEntry::Symlink { target } => self.add_text(target.len()),
            PlacedEntry::Nothing | PlacedEntry::Image(_) | PlacedEntry::Directory { .. } => Ok(()),
        }
    }
}

fn effect_limit_error(key: &str, message: String) -> Error {
    Error::new(ErrorKind::TooLarge, message)
        .with_rule(format!("limits.{key}"))
        .hint(format!(
            "none of its effects were kept; let the command change less, or raise `limits.{key}` of the shell"
        ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> EffectTally {
        EffectTally::new(EffectLimits {
            entries: Some(2),
            text_bytes: Some(10),
            content_bytes: Some(100),
            time: None,
        })
    }

    #[test]
    fn what_is_within_every_limit_passes_and_the_next_is_refused_by_name() {
        let mut entries = tally();
        assert!(entries.add_entry(1).and_then(|()| entries.add_entry(1)).is_ok());
        let error = entries.add_entry(1).unwrap_err();
        assert_eq!(
            (error.kind(), error.refused_by()),
            (ErrorKind::TooLarge, Some("limits.changed_files"))
        );
        let mut text = tally();
        assert!(text.add_entry(6).and_then(|()| text.add_text(4)).is_ok());
        assert_eq!(text.add_text(1).unwrap_err().refused_by(), Some("limits.changed_files"));
        let mut content = tally();
        assert!(content.add_content(60).and_then(|()| content.add_content(40)).is_ok());
        assert_eq!(
            content.add_content(u64::MAX).unwrap_err().refused_by(),
            Some("limits.written_mb")
        );
    }

    #[test]
    fn without_limits_nothing_is_refused() {
        let mut tally = EffectTally::default();
        for _ in 0..3 {
            let counted = tally.add_entry(usize::MAX).and_then(|()| tally.add_content(u64::MAX));
            assert!(counted.is_ok());
        }
    }
}
