//! Many at once: nobody's change is lost, nobody sees half of one.

use std::future::Future;

use bytes::Bytes;
use garret_core::{Error, ErrorKind, Precondition, Result};

use crate::Probe;
use crate::mutations::{append, append_or_create, make_dirs, remove, rename, write, write_if};

/// Runs `work` for each number below `count`, all at once, and gives what they gave.
async fn at_once<F, T>(probe: &Probe, count: usize, work: impl Fn(Probe, usize) -> F) -> Vec<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let tasks: Vec<_> = (0..count)
        .map(|index| tokio::spawn(work(probe.clone(), index)))
        .collect();
    let mut results = Vec::new();
    for task in tasks {
        results.push(task.await.expect("no task panics"));
    }
    results
}

/// The errors of `outcomes`, of which exactly one is a success.
fn one_winner<T: std::fmt::Debug>(outcomes: Vec<Result<T>>) -> Vec<Error> {
    let (won, lost): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1, "exactly one wins: {won:?}");
    lost.into_iter().filter_map(Result::err).collect()
}

/// Eight tasks that count by read and conditional write lose no step.
pub async fn a_counter_by_conditional_writes_loses_nothing(probe: Probe) {
    probe.write("counter", "0").await;
    at_once(&probe, 8, async |probe: Probe, _| {
        for _ in 0..12 {
            count_one(&probe).await;
        }
    })
    .await;
    assert_eq!(probe.text("counter").await, "96");
}

async fn count_one(probe: &Probe) {
    loop {
        let read = probe.read("counter").await;
        let now: u64 = std::str::from_utf8(&read.bytes)
            .ok()
            .and_then(|text| text.parse().ok())
            .expect("a number");
        let wanted = Precondition::Version(read.version);
        match probe
            .try_apply(write_if("counter", (now + 1).to_string(), wanted))
            .await
        {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
        }
    }
}

/// A hundred one-byte appends at once leave a hundred bytes.
pub async fn appends_at_once_all_arrive(probe: Probe) {
    at_once(&probe, 100, async |probe: Probe, index| {
        probe.apply(append_or_create("log", vec![index as u8])).await;
    })
    .await;
    let mut bytes = probe.read("log").await.bytes.to_vec();
    bytes.sort_unstable();
    assert_eq!(bytes, (0..100).collect::<Vec<u8>>());
}

/// Appends and conditional writes of one file keep out of each other's way.
pub async fn appends_and_conditional_writes_lose_nothing(probe: Probe) {
    probe.write("log", "").await;
    at_once(&probe, 8, async |probe: Probe, index| {
        for _ in 0..10 {
            if index % 2 == 0 {
                probe.apply(append("log", "a")).await;
            } else {
                add_by_write(&probe).await;
            }
        }
    })
    .await;
    let text = probe.text("log").await;
    assert_eq!((text.matches('a').count(), text.matches('w').count()), (40, 40));
}

async fn add_by_write(probe: &Probe) {
    loop {
        let read = probe.read("log").await;
        let longer = [&read.bytes[..], b"w"].concat();
        let wanted = Precondition::Version(read.version);
        match probe.try_apply(write_if("log", longer, wanted)).await {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}"),
        }
    }
}

/// Of many who create one file, one wins.
pub async fn one_creator_wins(probe: Probe) {
    for turn in 0..10 {
        // In a directory that each of them would make.
        let outcomes = at_once(&probe, 16, move |probe: Probe, index| async move {
            let (path, content) = (format!("d{turn}/lock"), format!("{index}"));
            probe.try_apply(write_if(&path, content, Precondition::Absent)).await
        })
        .await;
        for error in one_winner(outcomes) {
            assert_eq!(error.kind(), ErrorKind::Conflict, "{error:?}");
            assert!(
                error.current_version().is_some(),
                "a conflict carries the current version"
            );
        }
    }
}

/// Of two writers with one version, one wins.
pub async fn one_writer_with_a_version_wins(probe: Probe) {
    for turn in 0..10 {
        let version = probe.write("f", format!("start {turn}")).await;
        let outcomes = at_once(&probe, 4, |probe: Probe, index| {
            let wanted = Precondition::Version(version.clone());
            async move { probe.try_apply(write_if("f", format!("{index}"), wanted)).await }
        })
        .await;
        let lost = one_winner(outcomes);
        assert!(lost.iter().all(|error| error.kind() == ErrorKind::Conflict), "{lost:?}");
    }
}

/// Of many who move one file, one wins.
pub async fn one_mover_wins(probe: Probe) {
    probe.write("f", "x").await;
    let outcomes = at_once(&probe, 12, async |probe: Probe, index| {
        probe.try_apply(rename("f", &format!("to{index}"))).await
    })
    .await;
    assert!(
        one_winner(outcomes)
            .iter()
            .all(|error| error.kind() == ErrorKind::NotFound)
    );
    assert_eq!(probe.names("").await.len(), 1);
}

/// Of many who remove one file, one wins.
pub async fn one_remover_wins(probe: Probe) {
    probe.write("f", "x").await;
    let outcomes = at_once(&probe, 12, async |probe: Probe, _| probe.try_apply(remove("f")).await).await;
    assert!(
        one_winner(outcomes)
            .iter()
            .all(|error| error.kind() == ErrorKind::NotFound)
    );
}

/// Directories that many make at once are there for all.
pub async fn directories_made_at_once_are_there(probe: Probe) {
    at_once(&probe, 16, async |probe: Probe, index| {
        probe.apply(make_dirs("a/b/c/d")).await;
        probe.apply(write(&format!("a/b/c/d/{index:02}"), "x")).await;
    })
    .await;
    assert_eq!(probe.names("a/b/c/d").await.len(), 16);
}

/// A reader sees one content or the other, whole, while writers replace it.
pub async fn a_reader_never_sees_a_mix(probe: Probe) {
    const SIZE: usize = 200_000;
    let content = |letter: u8| Bytes::from(vec![letter; SIZE + usize::from(letter)]);
    probe.write("f", content(b'a')).await;
    at_once(&probe, 6, |probe: Probe, index| {
        let contents = [content(b'a'), content(b'b'), content(b'c')];
        async move {
            for turn in 0..25 {
                if index % 2 == 0 {
                    probe.write("f", contents[(index + turn) % 3].clone()).await;
                } else {
                    check_whole(&probe, SIZE).await;
                }
            }
        }
    })
    .await;
}

async fn check_whole(probe: &Probe, size: usize) {
    let read = probe.read("f").await;
    let letter = read.bytes[0];
    assert!(read.bytes.iter().all(|byte| *byte == letter), "a reader saw a mix");
    assert_eq!(read.bytes.len(), size + usize::from(letter), "a reader saw a part");
    assert_eq!(read.size, read.bytes.len() as u64);
}

/// Batches over the same files in opposite order end, and leave the files of one batch.
pub async fn batches_at_once_do_not_mix(probe: Probe) {
    probe.batch(vec![write("d/x", "start"), write("e/x", "start")]).await;
    at_once(&probe, 8, async |probe: Probe, index| {
        for turn in 0..6 {
            let mark = format!("{index}-{turn}");
            let mut mutations = vec![write("d/x", mark.clone()), write("e/x", mark)];
            if index % 2 == 0 {
                mutations.reverse();
            }
            probe.batch(mutations).await;
        }
    })
    .await;
    assert_eq!(probe.text("d/x").await, probe.text("e/x").await);
}

/// Moves between two directories in both directions lose no file.
pub async fn moves_at_once_lose_nothing(probe: Probe) {
    probe
        .batch(
            (0..8)
                .map(|index| write(&format!("a/{index}"), format!("{index}")))
                .collect(),
        )
        .await;
    probe.make_dirs("b").await;
    at_once(&probe, 8, async |probe: Probe, index| {
        for _ in 0..5 {
            probe.apply(rename(&format!("a/{index}"), &format!("b/{index}"))).await;
            probe.apply(rename(&format!("b/{index}"), &format!("a/{index}"))).await;
        }
    })
    .await;
    assert_eq!(probe.names("a").await.len(), 8);
    assert_eq!(probe.names("b").await.len(), 0);
}

/// What a call returned as done is seen by every later call, whoever makes it.
pub async fn a_returned_write_is_seen_by_all(probe: Probe) {
    at_once(&probe, 8, async |probe: Probe, index| {
        for turn in 0..10 {
            let (at, text) = (format!("d{index}/f"), format!("{turn}"));
            probe.write(&at, text.clone()).await;
            let other = probe.clone();
            let seen = tokio::spawn(async move { (other.text(&at).await, other.names("").await) }).await;
            let (seen, names) = seen.expect("no task panics");
            assert_eq!(seen, text);
            assert!(names.contains(&format!("d{index}")), "{names:?}");
        }
    })
    .await;
}
