//! Edits.

use garret_workspace::{Edit, EditOptions};

use super::Room;

async fn edit(room: &Room, old_text: &str, new_text: &str) {
    let edit = Edit {
        old_text: old_text.into(),
        new_text: new_text.into(),
        ..Edit::default()
    };
    let edited = room.workspace.edit("f", &[edit], EditOptions::default()).await;
    assert_eq!(edited.expect("the edit applies").replacements, 1);
}

/// Taken literally.
pub async fn an_edit_with_dollar_signs(room: Room) {
    for new_text in ["$&", "$1", "$$", "${0}", "$`", "\\1", "\\n", "$0 and $& and \\0"] {
        room.write("f", "price = X;").await;
        edit(&room, "X", new_text).await;
        assert_eq!(room.probe.text("f").await, format!("price = {new_text};"));
    }
}

/// Matches; CRLF kept.
pub async fn an_edit_of_a_crlf_file(room: Room) {
    room.write("f", "one\r\ntwo\r\nthree\r\n").await;
    edit(&room, "one\ntwo\n", "1\n2\n2.5\n").await;
    assert_eq!(room.probe.text("f").await, "1\r\n2\r\n2.5\r\nthree\r\n");
    room.write("f", "one\r\ntwo\r\nlast").await;
    edit(&room, "two\nlast", "2\nend").await;
    assert_eq!(room.probe.text("f").await, "one\r\n2\r\nend");
}
