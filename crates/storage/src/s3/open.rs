//! Opening a storage, and reopening it from a ref.

use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{Error, OpenContext, OpenedStorage, Result, Storage, StorageFactory, WsPath, shape};
use serde_json::{Map, Value};

use super::bucket::{Bucket, ListCall, PAGE};
use super::bucket_memory::BucketMemory;
use super::handle_locks::HandleLocks;
use super::keys::KeyLayout;
use super::lazy_storage::LazyS3Storage;
use super::locate::children_of_page;
use super::options::S3Options;
use super::probe::Abilities;
use super::probe_memory::{ProbeKey, ProbeMemory, ProbeRecord};
use super::secret::Secret;
use super::wire::S3Client;
use super::wire::failure::S3RequestError;
use super::{S3Context, S3Storage, credentials, move_directory, probe, url, wire};

/// Opens the prefix: finds the credentials, checks that the bucket exists, probes the server unless `memory` knows it,
/// and finishes moves that were interrupted.
pub(super) async fn open_storage(
    options: S3Options,
    context: &OpenContext,
    memory: &ProbeMemory,
) -> Result<Arc<S3Storage>> {
    options.check()?;
    let layout = KeyLayout::new(&options.prefix)?;
    let provider = credentials::find_credentials(&options)?;
    let wire = S3Client::new(&options, provider, context.clock.clone(), context.ids.clone())?;
    let opening = S3Opening {
        key: ProbeKey::new(&wire.bucket_url(), options.writers),
        bucket: Arc::new(Bucket { wire }),
        layout,
        options,
        context,
        memory,
    };
    opening
        .open_or_probe()
        .await
        .map_err(|error| error.during_operation("open"))
}

/// A storage that is being opened.
struct S3Opening<'a> {
    key: ProbeKey,
    bucket: Arc<Bucket>,
    layout: KeyLayout,
    options: S3Options,
    context: &'a OpenContext,
    memory: &'a ProbeMemory,
}

impl S3Opening<'_> {
    async fn open_or_probe(self) -> Result<Arc<S3Storage>> {
        let identity = self.bucket.wire.identity();
        if let Some(record) = self.memory.find(&self.key, self.context.clock.now()) {
            identity.expect_servers(record.servers.clone());
            let known = BucketMemory::new(self.context.clock.clone());
            let opened = self.build_storage(record.abilities, known).await;
            // A wrong record is worse than none: the server is probed as if it had never been seen.
            if !identity.is_contradicted() {
                return opened;
            }
            self.memory.forget(&self.key);
        }
        identity.begin_probe();
        let known = BucketMemory::new(self.context.clock.clone());
        check_bucket(&self.bucket, &self.layout, &self.options, &known).await?;
        let id = self.context.ids.next_id();
        let abilities = probe::probe_server(&self.bucket, &self.layout, &id, self.options.writers).await?;
        identity.end_probe();
        let record = ProbeRecord::new(abilities, identity.server_names(), self.context.clock.now());
        self.memory.keep(&self.key, record);
        self.build_storage(abilities, known).await
    }

    /// Builds the storage on a server with these abilities, after finishing interrupted moves.
    async fn build_storage(&self, abilities: Abilities, known: BucketMemory) -> Result<Arc<S3Storage>> {
        let shared = S3Context {
            bucket: self.bucket.clone(),
            layout: self.layout.clone().with_backslash_replaced(abilities.takes_backslash),
            abilities,
            options: self.options.clone(),
            known,
            turns: HandleLocks::default(),
            clock: self.context.clock.clone(),
            ids: self.context.ids.clone(),
        };
        let resumed = move_directory::resume_moves(&shared).await;
        resumed.map_err(S3RequestError::into_error)?;
        Ok(Arc::new(S3Storage {
            shared: Arc::new(shared),
        }))
    }
}

/// Lists the prefix once: wrong keys, a missing bucket and a missing permission show here, each with its reason.
async fn check_bucket(bucket: &Bucket, layout: &KeyLayout, options: &S3Options, known: &BucketMemory) -> Result<()> {
    let list = ListCall {
        prefix: layout.prefix(),
        is_shallow: true,
        limit: PAGE,
        ..ListCall::default()
    };
    let mark = known.current_mark();
    match bucket.list(&list).await {
        Ok(page) => {
            // The page is paid for, so the first write can use its names.
            known.remember_children(&WsPath::root(), children_of_page(layout, layout.prefix(), &page), mark);
            Ok(())
        }
        Err(S3RequestError::NoBucket | S3RequestError::NotFound) => {
            let message = format!("there is no bucket {}", garret_core::path::quote(&options.bucket));
            Err(Error::new(garret_core::ErrorKind::NotFound, message)
                .hint("make the bucket first, or correct its name"))
        }
        Err(failure) => Err(failure.into_error()),
    }
}

/// Opens S3 storages as `s3://bucket/prefix`.
#[derive(Debug, Clone, Copy, Default)]
pub struct S3Factory;

#[async_trait]
impl StorageFactory for S3Factory {
    fn kind(&self) -> &'static str {
        "s3"
    }

    fn parse_url(&self, rest: &str) -> Result<Map<String, Value>> {
        url::options_of_url(rest)
    }

    fn check_options(&self, options: &Map<String, Value>) -> Result<()> {
        let options: S3Options = shape::from_value(Value::Object(options.clone()))?;
        options.check()
    }

    async fn open(&self, options: Map<String, Value>, context: &OpenContext) -> Result<OpenedStorage> {
        let options: S3Options = shape::from_value(Value::Object(options))?;
        let known = (location_of(&options)?, options_without_secrets(&options));
        let storage = LazyS3Storage::new(options, context, ProbeMemory::default());
        storage.open_now().await?;
        Ok(opened_storage(Arc::new(storage), known))
    }
}

impl S3Factory {
    /// Opens a prefix without sending a request: the first operation that needs the server looks up its abilities in
    /// `memory` or probes it. Wrong credentials, a missing bucket or an unsuitable server show only then.
    pub fn open_lazily(&self, options: S3Options, context: &OpenContext, memory: ProbeMemory) -> Result<OpenedStorage> {
        options.check()?;
        let known = (location_of(&options)?, options_without_secrets(&options));
        Ok(opened_storage(
            Arc::new(LazyS3Storage::new(options, context, memory)),
            known,
        ))
    }
}

fn opened_storage<S: Storage + 'static>(
    storage: Arc<S>,
    (place, reference): (String, Option<Map<String, Value>>),
) -> OpenedStorage {
    OpenedStorage {
        location_id: Some(place),
        reference,
        ..storage.into()
    }
}

/// Returns the location of the files: the URL of the bucket and the prefix.
fn location_of(options: &S3Options) -> Result<String> {
    let layout = KeyLayout::new(&options.prefix)?;
    Ok(format!("{}/{}", wire::bucket_url_of(options), layout.prefix()))
}

/// Returns the options that open the same files again, without secrets.
fn options_without_secrets(options: &S3Options) -> Option<Map<String, Value>> {
    let mut kept = options.clone();
    let given = [&kept.access_key_id, &kept.secret_access_key];
    let all_named = given.into_iter().flatten().all(Secret::is_reference);
    // A ref is written to disk, so only references to keys may be in it. Half a set of keys is useless: all are dropped
    // together.
    if !all_named || kept.session_token.as_ref().is_some_and(|token| !token.is_reference()) {
        kept.access_key_id = None;
        kept.secret_access_key = None;
        kept.session_token = None;
    }
    match serde_json::to_value(kept) {
        Ok(Value::Object(options)) => Some(options),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ref_holds_references_and_no_secret() {
        let mut options = S3Options::new("b", "p");
        options.access_key_id = Some(Secret::new("AKIA"));
        options.secret_access_key = Some(Secret::new("hunter2"));
        let kept = options_without_secrets(&options).unwrap();
        assert!(!kept.contains_key("access_key_id") && !kept.contains_key("secret_access_key"));
        options.access_key_id = Some(Secret::new("env:ID"));
        options.secret_access_key = Some(Secret::new("file:/run/key"));
        let kept = options_without_secrets(&options).unwrap();
        assert_eq!(kept["secret_access_key"], "file:/run/key");
        let again: S3Options = shape::from_value(Value::Object(kept)).unwrap();
        assert_eq!(again, options);
    }
}
