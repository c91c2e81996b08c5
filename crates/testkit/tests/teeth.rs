//! The suite can fail: a storage that breaks one promise is found by the behaviour of that promise, and by the model.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use garret_core::{
    Batch, DirectoryHandle, Follow, ListOptions, ListPage, MemoryStorage, Mutation, MutationOutcome, Precondition,
    ReadOptions, ReadResult, Result, Stat, StatOptions, Storage, StorageInfo, SystemClock, Version, WsPath,
};
use garret_testkit::conformance::{batches, check, concurrency, links, lists, preconditions, reads, renames, writes};
use garret_testkit::{Fixture, Probe, model};

/// A promise to break.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sin {
    IgnoresPreconditions,
    AppliesOneByOne,
    ReplacesUnasked,
    ForgetsModes,
    ListsBackwards,
    SkipsOneAfterACursor,
    IgnoresTheLimitOfReads,
    ReusesVersions,
    FollowsWhatItMustNot,
    ResolvesNothing,
}

#[derive(Debug)]
struct Sinner {
    inner: MemoryStorage,
    sin: Sin,
}

impl Sinner {
    fn spoil(&self, mutation: &mut Mutation) {
        match mutation {
            Mutation::Write { precondition, .. }
            | Mutation::Append { precondition, .. }
            | Mutation::Remove { precondition, .. }
                if self.sin == Sin::IgnoresPreconditions =>
            {
                *precondition = Precondition::Any;
            }
            Mutation::Rename { overwrite, .. } | Mutation::Copy { overwrite, .. }
                if self.sin == Sin::ReplacesUnasked =>
            {
                *overwrite = true;
            }
            Mutation::Write { mode, .. } if self.sin == Sin::ForgetsModes => *mode = Some(0o600),
            _ => {}
        }
    }

    fn follow(&self, follow: Follow) -> Follow {
        if self.sin == Sin::FollowsWhatItMustNot {
            Follow::Inside
        } else {
            follow
        }
    }

    async fn one_by_one(&self, batch: Batch) -> Result<Vec<MutationOutcome>> {
        let mut applied = Vec::new();
        for mutation in batch.mutations {
            let mutations = vec![mutation];
            let follow = batch.follow;
            applied.extend(
                self.inner
                    .apply(Batch {
                        mutations,
                        follow,
                        ..Batch::default()
                    })
                    .await?,
            );
        }
        Ok(applied)
    }
}

#[async_trait]
impl Storage for Sinner {
    fn info(&self) -> StorageInfo {
        self.inner.info()
    }

    async fn resolve(&self, path: &WsPath) -> Result<WsPath> {
        if self.sin == Sin::ResolvesNothing {
            return Ok(path.clone());
        }
        self.inner.resolve(path).await
    }

    async fn stat(&self, path: &WsPath, options: StatOptions) -> Result<Stat> {
        self.inner.stat(path, options).await
    }

    async fn read(&self, path: &WsPath, mut options: ReadOptions) -> Result<ReadResult> {
        options.follow = self.follow(options.follow);
        if self.sin == Sin::IgnoresTheLimitOfReads {
            options.max_bytes = None;
        }
        let mut read = self.inner.read(path, options).await?;
        if self.sin == Sin::ReusesVersions {
            read.version = Version::new(format!("{}", read.size));
        }
        Ok(read)
    }

    async fn list(&self, path: &WsPath, options: ListOptions) -> Result<ListPage> {
        let is_later_page = options.after.is_some();
        let mut page = self.inner.list(path, options).await?;
        match self.sin {
            Sin::ListsBackwards => page.entries.reverse(),
            Sin::SkipsOneAfterACursor if is_later_page => drop(page.entries.drain(..1.min(page.entries.len()))),
            _ => {}
        }
        Ok(page)
    }

    async fn apply(&self, mut batch: Batch) -> Result<Vec<MutationOutcome>> {
        batch.follow = self.follow(batch.follow);
        batch.mutations.iter_mut().for_each(|mutation| self.spoil(mutation));
        let mut applied = match self.sin {
            Sin::AppliesOneByOne => self.one_by_one(batch).await?,
            _ => self.inner.apply(batch).await?,
        };
        if self.sin == Sin::ReusesVersions {
            let same = |one: &mut MutationOutcome| {
                one.version = one.version.is_some().then(|| Version::new(format!("{}", one.size)))
            };
            applied.iter_mut().for_each(same);
        }
        Ok(applied)
    }

    fn open_directory(&self, path: &WsPath) -> Result<Option<Box<dyn DirectoryHandle>>> {
        self.inner.open_directory(path)
    }
}

async fn sinning(sin: Sin) -> Fixture {
    let inner = MemoryStorage::new(Arc::new(SystemClock::default()));
    Fixture::new(Arc::new(Sinner { inner, sin }))
}

fn is_found<F: Future<Output = ()>>(sin: Sin, behaviour: impl FnOnce(Probe) -> F) -> bool {
    catch_unwind(AssertUnwindSafe(|| check(|| sinning(sin), behaviour))).is_err()
}

#[test]
fn each_broken_promise_is_found_by_its_behaviour() {
    assert!(is_found(
        Sin::IgnoresPreconditions,
        preconditions::a_stale_version_is_a_conflict
    ));
    assert!(is_found(Sin::IgnoresPreconditions, concurrency::one_creator_wins));
    assert!(is_found(Sin::AppliesOneByOne, batches::a_failure_takes_back_each_kind));
    assert!(is_found(
        Sin::AppliesOneByOne,
        batches::a_failure_in_the_middle_takes_back_everything
    ));
    assert!(is_found(
        Sin::ReplacesUnasked,
        renames::a_move_replaces_nothing_by_default
    ));
    assert!(is_found(Sin::ForgetsModes, writes::an_overwrite_keeps_the_mode));
    assert!(is_found(Sin::ListsBackwards, lists::a_deep_list_is_in_byte_order));
    assert!(is_found(
        Sin::SkipsOneAfterACursor,
        lists::five_thousand_entries_come_in_pages
    ));
    assert!(is_found(
        Sin::IgnoresTheLimitOfReads,
        reads::a_read_over_the_limit_is_too_large
    ));
    assert!(is_found(Sin::ReusesVersions, writes::every_content_has_its_own_version));
    assert!(is_found(Sin::FollowsWhatItMustNot, links::never_follows_no_link_at_all));
    assert!(is_found(Sin::ResolvesNothing, links::resolve_gives_the_real_path));
}

#[test]
fn a_promise_that_is_kept_is_not_found_broken() {
    assert!(!is_found(Sin::ResolvesNothing, lists::a_deep_list_is_in_byte_order));
    assert!(!is_found(Sin::ListsBackwards, reads::a_range_gives_its_bytes));
}

#[test]
fn the_model_finds_broken_promises() {
    for sin in [
        Sin::IgnoresPreconditions,
        Sin::AppliesOneByOne,
        Sin::ReplacesUnasked,
        Sin::FollowsWhatItMustNot,
        Sin::ResolvesNothing,
    ] {
        let run = || model::run(|| sinning(sin), 300, 30, true);
        assert!(
            catch_unwind(AssertUnwindSafe(run)).is_err(),
            "the model overlooks {sin:?}"
        );
    }
}
