//! The content of listed files, for a search: each of its threads reads for itself, without the futures of the storage.

use bytes::Bytes;
use futures::executor::block_on;
use garret_core::{LocalContent, Version, WsPath};

use crate::tree::addresses_of;
use crate::workspace::DepotWorkspace;

impl LocalContent for DepotWorkspace {
    /// Finds the content by the version alone, which is a part of its address: so it need not know at which point of
    /// which lineage the file was listed.
    fn find_content(&self, _path: &WsPath, version: &Version, size: u64) -> Option<Bytes> {
        let (shared, range) = (self.shared(), addresses_of(version)?);
        let found = shared
            .database
            .read_once(|session| session.contents().content_within(&range));
        let (address, row) = found.ok()??;
        let read = shared.content.read_range(&shared.database, address, row, size, 0..size);
        block_on(read).ok()
    }
}
