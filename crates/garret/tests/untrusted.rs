//! What holds a configuration that is not trusted, and what holds beside every configuration.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test makes the directories that it opens")]

use std::os::unix::fs::symlink;

use garret::{ErrorKind, FsRestriction, Garret, WorkspaceConfig};
use serde_json::json;

#[tokio::test]
async fn a_confined_directory_is_refused_where_a_link_leads_out() {
    let room = tempfile::tempdir().unwrap();
    let own = room.path().join("own");
    std::fs::create_dir_all(own.join("inside")).unwrap();
    std::fs::create_dir(room.path().join("outside")).unwrap();
    symlink("../outside", own.join("link")).unwrap();
    symlink("inside", own.join("alias")).unwrap();
    let garret = Garret::new().confined_to(&own);
    let open = async |directory: &str| {
        let config = WorkspaceConfig::from_toml(&format!("storage = 'local:{directory}'")).unwrap();
        garret.open_config("box", &config).await.map(drop)
    };
    for outside in ["link", "..", "../outside", "inside/../../outside", "/"] {
        let error = open(outside).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{outside}");
    }
    for inside in [".", "inside", "alias", "./inside/.."] {
        open(inside).await.unwrap();
    }
}

#[tokio::test]
async fn a_restriction_holds_beside_the_configuration() {
    let restriction = FsRestriction {
        deny_read: vec!["hidden".into()],
        deny_write: vec!["rules".into()],
        ..FsRestriction::default()
    };
    let config = WorkspaceConfig::from_toml("storage = 'memory:'").unwrap();
    let toolbox = Garret::new()
        .open_restricted("box", &config, &restriction)
        .await
        .unwrap();
    for (path, is_allowed) in [("rules", false), ("hidden/a", false), ("other", true)] {
        let answer = toolbox.call("write_file", json!({"path": path, "content": "x"})).await;
        assert_eq!(answer.ok, is_allowed, "{path}: {}", answer.text);
    }
    let read_only = FsRestriction {
        read_only: true,
        ..FsRestriction::default()
    };
    let toolbox = Garret::new().open_restricted("box", &config, &read_only).await.unwrap();
    assert!(
        !toolbox
            .call("write_file", json!({"path": "a", "content": "x"}))
            .await
            .ok
    );
}
