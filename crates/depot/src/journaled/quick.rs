//! A change of one file that needs no look beforehand: it is made on the condition that the file is what is known.
//!
//! Where that does not hold, the storage refuses and nothing happened; the long way then finds out what others did.

use garret_core::{Applied, Batch, EntryKind, Follow, Mutation, Precondition, Result, Version, WsPath};

use super::record::{Known, Seen};
use super::turn::Turn;

impl Turn<'_> {
    /// The batch, bound to what is known of its one file; `None` for what is no such change.
    pub(super) fn quick(&mut self, batch: &Batch) -> Result<Option<Batch>> {
        let [mutation] = batch.mutations.as_slice() else {
            return Ok(None);
        };
        let Some((path, precondition)) = self.quick_parts(mutation) else {
            return Ok(None);
        };
        if path.is_root() || !self.is_above_known(path)? {
            return Ok(None);
        }
        let known = self.known(path.as_str().as_bytes())?;
        let may_make = match mutation {
            Mutation::Append { create, .. } => *create,
            Mutation::Remove { .. } => false,
            _ => true,
        };
        let binding = match &known {
            None if may_make && self.new_file_mode().is_some() => Precondition::Absent,
            Some(Known {
                kind: EntryKind::File,
                token: Some(token),
                ..
            }) => Precondition::Version(Version::new(token)),
            _ => return Ok(None),
        };
        if *precondition != Precondition::Any && *precondition != binding {
            return Ok(None);
        }
        let mut guarded = batch.clone();
        // No link can lead it elsewhere than where it is recorded.
        guarded.follow = Follow::Never;
        if let Mutation::Write { precondition, .. }
        | Mutation::Append { precondition, .. }
        | Mutation::Remove { precondition, .. } = &mut guarded.mutations[0]
        {
            *precondition = binding;
        }
        Ok(Some(guarded))
    }

    /// The file of a mutation that can be made quickly, and what is demanded of it. Where a look costs little, only small writes are.
    fn quick_parts<'m>(&self, mutation: &'m Mutation) -> Option<(&'m WsPath, &'m Precondition)> {
        let is_far = self.journaled.reach.is_far;
        match mutation {
            Mutation::Write {
                path,
                content,
                precondition,
                ..
            } => {
                let most = self.room.shared().options.inline_bytes;
                let is_small = content.as_bytes().is_some_and(|bytes| bytes.len() <= most);
                (is_small || is_far).then_some((path, precondition))
            }
            Mutation::Append { path, precondition, .. } | Mutation::Remove { path, precondition, .. } => {
                is_far.then_some((path, precondition))
            }
            _ => None,
        }
    }

    fn is_above_known(&mut self, path: &WsPath) -> Result<bool> {
        let text = path.as_str();
        let above = &text[..text.rfind('/').unwrap_or(0)];
        let above = self.known(above.as_bytes())?;
        Ok(above.is_some_and(|above| above.kind == EntryKind::Directory))
    }

    /// The mode that a new file gets.
    pub(super) fn new_file_mode(&self) -> Option<u32> {
        self.state.file_mode.or_else(|| self.journaled.files.info().file_mode)
    }

    pub(super) async fn apply_quickly(&mut self, batch: Batch) -> Result<Vec<Applied>> {
        let contents = self.contents(&batch.mutations).await?;
        self.begin(&batch, batch.follow, contents)?;
        let applied = match self.journaled.files.apply(batch.clone()).await {
            Ok(applied) => applied,
            Err(error) => {
                self.abort()?;
                return Err(error);
            }
        };
        let path = batch.mutations[0].path();
        let known = self.known_left(&batch.mutations[0], &applied[0])?;
        let path = path.as_str().as_bytes().to_vec();
        self.close(vec![Seen { path, known }]).await?;
        Ok(applied)
    }

    /// What is at the path of a write, an append or a removal that was done.
    pub(super) fn known_left(&mut self, mutation: &Mutation, applied: &Applied) -> Result<Option<Known>> {
        let mode = match mutation {
            Mutation::Write { mode, .. } => *mode,
            Mutation::Append { .. } => None,
            _ => return Ok(None),
        };
        let before = self.known(mutation.path().as_str().as_bytes())?;
        let before = before.filter(|before| before.kind == EntryKind::File);
        let kept = before.map(|before| before.mode);
        let mode = mode.map(|mode| mode & 0o7777).or(kept).or(self.new_file_mode());
        Ok(Some(Known {
            kind: EntryKind::File,
            mode: mode.unwrap_or(0o644),
            size: applied.size,
            target: None,
            token: applied.version.as_ref().map(|version| version.as_str().to_owned()),
        }))
    }
}
