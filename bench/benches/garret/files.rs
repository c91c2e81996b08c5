//! Reading and writing 1,000 files of 4 KiB through the whole workspace stack, without history: what history costs has lines of its
//! own, beside these.

use std::collections::HashMap;
use std::hint::black_box;
use std::path::Path;
use std::sync::Mutex;

use bytes::Bytes;
use garret::{Garret, Workspace, WorkspaceConfig, WriteOptions};
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::measure::{Line, compare};

const FILES: u32 = 1_000;
const SIZE: usize = 4096;
const ROUNDS: usize = 15;

pub(crate) async fn lines() -> Vec<Line> {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let names: Vec<_> = (0..FILES)
        .map(|number| format!("d{}/f{number}.txt", number % 10))
        .collect();
    for sub in 0..10 {
        std::fs::create_dir(directory.path().join(format!("d{sub}"))).expect("a directory");
    }
    let local = open_local(directory.path(), "relaxed").await;
    let durable = open_local(directory.path(), "full").await;
    let memory = open(json!({"kind": "memory"})).await;
    block_in_place(|| {
        vec![
            local_write(&local, directory.path(), &names),
            durable_write(&durable, directory.path(), &names[..100]),
            local_read(&local, directory.path(), &names),
            memory_write(&memory, &names),
            memory_read(&memory, &names),
        ]
    })
}

async fn open_local(directory: &Path, durability: &str) -> Workspace {
    open(json!({"kind": "local", "dir": directory, "durability": durability})).await
}

async fn open(storage: Value) -> Workspace {
    let config = json!({"storage": storage, "history": "off"});
    let config = WorkspaceConfig::from_json(&config.to_string()).expect("the configuration is right");
    let opened = Garret::new().open_config("bench", &config).await;
    opened.expect("the storage opens").workspace().clone()
}

fn wait<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Handle::current().block_on(future)
}

fn write_all(workspace: &Workspace, names: &[String], content: &Bytes) {
    wait(async {
        for name in names {
            workspace
                .write(name, content.clone(), WriteOptions::default())
                .await
                .expect("it is written");
        }
    });
}

fn read_all(workspace: &Workspace, names: &[String]) {
    wait(async {
        for name in names {
            black_box(workspace.read_bytes(name).await.expect("it is read"));
        }
    });
}

fn content() -> Bytes {
    Bytes::from(vec![b'x'; SIZE])
}

/// What a careful program does by hand: a temporary file beside, then a rename.
fn write_and_rename(directory: &Path, name: &str, content: &[u8], is_synced: bool) {
    use std::io::Write;
    let path = directory.join(name);
    let temporary = path.with_extension("tmp");
    let mut file = std::fs::File::create(&temporary).expect("it is made");
    file.write_all(content).expect("it is written");
    if is_synced {
        file.sync_all().expect("it is synced");
    }
    std::fs::rename(&temporary, &path).expect("it is renamed");
    if is_synced {
        let parent = path.parent().expect("it has a directory");
        std::fs::File::open(parent)
            .and_then(|parent| parent.sync_all())
            .expect("the directory is synced");
    }
}

fn local_write(workspace: &Workspace, directory: &Path, names: &[String]) -> Line {
    let content = content();
    let floor = || {
        names
            .iter()
            .for_each(|name| write_and_rename(directory, name, &content, false))
    };
    let (floor, garret) = compare(ROUNDS, floor, || write_all(workspace, names, &content));
    let what = "local write, relaxed, without history".into();
    Line {
        what,
        floor_name: "write a temporary file and rename, by hand",
        aim: "≥ 0.60",
        floor,
        garret,
        operations: FILES,
    }
}

fn durable_write(workspace: &Workspace, directory: &Path, names: &[String]) -> Line {
    let content = content();
    let floor = || {
        names
            .iter()
            .for_each(|name| write_and_rename(directory, name, &content, true))
    };
    let (floor, garret) = compare(3, floor, || write_all(workspace, names, &content));
    let what = "local write, full durability, without history".into();
    Line {
        what,
        floor_name: "the same by hand, with both syncs",
        aim: "",
        floor,
        garret,
        operations: names.len() as u32,
    }
}

fn local_read(workspace: &Workspace, directory: &Path, names: &[String]) -> Line {
    let read = |name: &String| black_box(std::fs::read(directory.join(name)).expect("it is read"));
    let floor = || names.iter().for_each(|name| drop(read(name)));
    let (floor, garret) = compare(ROUNDS, floor, || read_all(workspace, names));
    Line {
        what: "local read".into(),
        floor_name: "`std::fs::read`",
        aim: "≥ 0.70",
        floor,
        garret,
        operations: FILES,
    }
}

fn memory_write(workspace: &Workspace, names: &[String]) -> Line {
    let content = content();
    let map = Mutex::new(HashMap::<String, Bytes>::new());
    let insert = |name: &String| {
        drop(
            map.lock()
                .expect("no holder panics")
                .insert(name.clone(), content.clone()),
        )
    };
    let (floor, garret) = compare(
        ROUNDS,
        || names.iter().for_each(insert),
        || write_all(workspace, names, &content),
    );
    Line {
        what: "memory write, without history".into(),
        floor_name: "insert into a locked `HashMap`",
        aim: "",
        floor,
        garret,
        operations: FILES,
    }
}

fn memory_read(workspace: &Workspace, names: &[String]) -> Line {
    let map: Mutex<HashMap<String, Bytes>> = Mutex::new(names.iter().map(|name| (name.clone(), content())).collect());
    let get = |name: &String| drop(black_box(map.lock().expect("no holder panics").get(name).cloned()));
    let (floor, garret) = compare(ROUNDS, || names.iter().for_each(get), || read_all(workspace, names));
    Line {
        what: "memory read".into(),
        floor_name: "get from a locked `HashMap`",
        aim: "",
        floor,
        garret,
        operations: FILES,
    }
}
