//! What a workspace is called, and what it is opened by.

use garret_core::ErrorKind;
use garret_depot::{NewWorkspace, Point};
use serde_json::json;

use crate::depot::support::{in_memory, workspace};

#[tokio::test]
async fn a_configuration_is_replaced_only_where_it_is_the_one_that_was_seen() {
    let depot = in_memory();
    let notes = workspace(&depot, "notes").await;
    let seen = notes.describe().await.unwrap();
    let (first, second) = (json!({"history": "session"}), json!({"history": "off"}));
    assert!(depot.replace_config(&notes, &seen, &first).await.unwrap());
    assert!(!depot.replace_config(&notes, &seen, &second).await.unwrap());
    assert_eq!(notes.describe().await.unwrap().config, first);
}

#[tokio::test]
async fn the_id_of_a_workspace_is_the_name_of_no_other() {
    let depot = in_memory();
    let (notes, other) = (workspace(&depot, "notes").await, workspace(&depot, "other").await);
    let named = || NewWorkspace::named(notes.id());
    let refused = [
        depot.create(named()).await.map(|_| ()),
        notes.branch(named(), &Point::Now).await.map(|_| ()),
        other.branch(named(), &Point::Now).await.map(|_| ()),
        depot.rename("other", notes.id()).await,
    ];
    for refused in refused {
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::AlreadyExists);
    }
    let meant = depot.workspace(notes.id()).await.unwrap();
    assert_eq!(meant.describe().await.unwrap().name.as_deref(), Some("notes"));
}
