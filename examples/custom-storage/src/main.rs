//! A program that brings a storage of its own: `metered:` keeps files in memory and counts what is read and written.
//!
//! A storage implements seven methods and gets every tool, policy, search and front door in return. This one wraps another, so it
//! forwards everything; the lint makes sure of it. `garret-testkit` has the conformance suite that a real one should pass.

#![allow(clippy::print_stdout, reason = "an example shows what happens")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use garret::{
    Batch, DirectoryHandle, Garret, ListOptions, ListPage, MemoryStorage, Mutation, MutationOutcome, OpenContext,
    OpenedStorage, ReadOptions, ReadResult, Result, Stat, StatOptions, Storage, StorageFactory, StorageInfo, WsPath,
    async_trait,
};
use serde_json::{Map, Value, json};

/// How many bytes went through.
#[derive(Debug, Default)]
struct Meter {
    read: AtomicU64,
    written: AtomicU64,
}

/// A storage that counts.
#[derive(Debug)]
struct Metered {
    inner: MemoryStorage,
    meter: Arc<Meter>,
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Storage for Metered {
    fn info(&self) -> StorageInfo {
        StorageInfo {
            kind: "metered".into(),
            ..self.inner.info()
        }
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        self.inner.resolve(path).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.inner.stat(path, options).await
    }

    async fn read(&self, path: &WsPath, options: ReadOptions) -> Result<ReadResult> {
        let read = self.inner.read(path, options).await?;
        self.meter.read.fetch_add(read.bytes.len() as u64, Ordering::Relaxed);
        Ok(read)
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        self.inner.list(path, options).await
    }

    async fn apply(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        let written: u64 = batch.mutations.iter().map(content_length).sum();
        let applied = self.inner.apply(batch).await?;
        self.meter.written.fetch_add(written, Ordering::Relaxed);
        Ok(applied)
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        self.inner.open_directory(path)
    }
}

fn content_length(mutation: &Mutation) -> u64 {
    match mutation {
        Mutation::Write { content, .. } => content.len(),
        Mutation::Append { content, .. } => content.len() as u64,
        _ => 0,
    }
}

/// Opens `metered:`.
#[derive(Debug)]
struct MeteredFactory(Arc<Meter>);

#[async_trait]
impl StorageFactory for MeteredFactory {
    fn kind(&self) -> &'static str {
        "metered"
    }

    fn parse_url(&self, _rest: &str) -> Result<Map<String, Value>> {
        Ok(Map::new())
    }

    async fn open(&self, _options: Map<String, Value>, context: &OpenContext) -> Result<OpenedStorage> {
        Ok(Arc::new(Metered {
            inner: MemoryStorage::new(context.clock.clone()),
            meter: self.0.clone(),
        })
        .into())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let meter = Arc::new(Meter::default());
    let toolbox = Garret::new()
        .register(MeteredFactory(meter.clone()))
        .open_url("metered:")
        .await?;
    toolbox
        .call("write_file", json!({"path": "a.txt", "content": "hello"}))
        .await;
    toolbox
        .call("append_file", json!({"path": "a.txt", "content": ", world\n"}))
        .await;
    let answer = toolbox.call("read_file", json!({"path": "a.txt"})).await;
    println!("{}", answer.text);
    println!(
        "on {}: {} bytes written",
        toolbox.workspace().storage_info().kind,
        meter.written.load(Ordering::Relaxed)
    );
    println!("something was read: {}", meter.read.load(Ordering::Relaxed) > 0);
    Ok(())
}
