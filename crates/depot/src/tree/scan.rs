//! Scans the entries in order: a merge of one range scan for each level. If several levels have a row for a path, the
//! nearest wins.

use std::collections::VecDeque;

use garret_core::Result;

use crate::metadata::{EntryNode, LevelEntry, LineageLevel, MetadataSession};

/// The first and the largest number of rows fetched at once: a list of three names should not fetch a thousand rows,
/// nor a large scan use a thousand statements of three rows.
const FIRST_ROWS: usize = 8;
const MOST_ROWS: usize = 1024;

/// The entries of a range, in order.
pub(crate) struct TreeScan<'t, 'c> {
    session: MetadataSession<'c>,
    end: Option<Vec<u8>>,
    cursors: Vec<LevelCursor<'t>>,
}

struct LevelCursor<'t> {
    level: &'t LineageLevel,
    rows: VecDeque<(Vec<u8>, LevelEntry)>,
    from: Vec<u8>,
    count: usize,
    is_done: bool,
}

impl<'t, 'c> TreeScan<'t, 'c> {
    pub(super) fn new(
        session: MetadataSession<'c>,
        levels: &'t [LineageLevel],
        start: Vec<u8>,
        end: Option<Vec<u8>>,
    ) -> Self {
        let cursor = |level| LevelCursor {
            level,
            rows: VecDeque::new(),
            from: start.clone(),
            count: FIRST_ROWS,
            is_done: false,
        };
        Self {
            session,
            end,
            cursors: levels.iter().map(cursor).collect(),
        }
    }

    /// Continues at `from`, which must lie ahead.
    pub(crate) fn seek(&mut self, from: &[u8]) {
        self.cursors.iter_mut().for_each(|cursor| cursor.seek(from));
    }

    /// Returns the next entry.
    pub(crate) fn next(&mut self) -> Result<Option<(Vec<u8>, EntryNode)>> {
        while let Some((path, held)) = self.next_held()? {
            if let LevelEntry::Node(node) = held {
                return Ok(Some((path, node)));
            }
        }
        Ok(None)
    }

    /// Returns all remaining entries.
    pub(crate) fn collect(mut self) -> Result<Vec<(Vec<u8>, EntryNode)>> {
        let mut all = Vec::new();
        while let Some(entry) = self.next()? {
            all.push(entry);
        }
        Ok(all)
    }

    /// Returns the smallest path for which a level has a row, with the row of the nearest such level.
    fn next_held(&mut self) -> Result<Option<(Vec<u8>, LevelEntry)>> {
        for cursor in &mut self.cursors {
            cursor.fill_rows(self.session, self.end.as_deref())?;
        }
        let fronts = self.cursors.iter().filter_map(|cursor| cursor.rows.front());
        let Some(path) = fronts.map(|(path, _)| path).min().cloned() else {
            return Ok(None);
        };
        let mut said = None;
        for cursor in &mut self.cursors {
            if cursor.rows.front().is_some_and(|(front, _)| *front == path) {
                let (_, held) = cursor.rows.pop_front().expect("it has a front");
                said.get_or_insert(held);
            }
        }
        Ok(said.map(|held| (path, held)))
    }
}

impl LevelCursor<'_> {
    fn fill_rows(&mut self, session: MetadataSession<'_>, end: Option<&[u8]>) -> Result<()> {
        if self.is_done || !self.rows.is_empty() {
            return Ok(());
        }
        let rows = session
            .entries()
            .list_entries(self.level.workspace, self.level.at, &self.from, end, self.count)?;
        self.is_done = rows.len() < self.count;
        self.count = (self.count * 2).min(MOST_ROWS);
        if let Some((last, _)) = rows.last() {
            // The smallest key after `last`.
            self.from = [last.as_slice(), b"\0"].concat();
        }
        self.rows = rows.into();
        Ok(())
    }

    fn seek(&mut self, from: &[u8]) {
        while self.rows.front().is_some_and(|(path, _)| path.as_slice() < from) {
            self.rows.pop_front();
        }
        if self.from.as_slice() < from {
            self.from = from.to_vec();
        }
        if self.rows.is_empty() {
            // After one jump another is likely, as in a shallow list, so only a few rows are fetched again.
            self.count = FIRST_ROWS;
        }
    }
}
