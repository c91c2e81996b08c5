//! What a workspace is opened by, kept beside it.

use serde_json::json;

use crate::support::{in_memory, workspace};

#[tokio::test]
async fn a_configuration_is_replaced_only_where_it_is_the_one_that_was_seen() {
    let depot = in_memory();
    let notes = workspace(&depot, "notes").await;
    let seen = notes.describe().await.unwrap();
    let (first, second) = (json!({"history": "session"}), json!({"history": "off"}));
    assert!(depot.replace_config(&notes, &seen, &first).await.unwrap());
    assert!(!depot.replace_config(&notes, &seen, &second).await.unwrap());
    let seen = notes.describe().await.unwrap();
    assert_eq!(seen.config, first);
    // Its files have moved elsewhere meanwhile.
    depot.set_storage(&notes, "local", &first).await.unwrap();
    assert!(!depot.replace_config(&notes, &seen, &second).await.unwrap());
    let now = notes.describe().await.unwrap();
    assert_eq!((now.kind.as_str(), now.config), ("local", first));
}
