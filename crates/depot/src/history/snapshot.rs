//! Snapshots: labels of points, made in constant time.

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Point, Result, Snapshot, SnapshotOptions, Timestamp};

use super::point::resolve_point;
use crate::metadata::{MetadataSession, SnapshotRow, stored_time, time_of};
use crate::workspace::DepotWorkspace;
use crate::writer::JobWeight;

impl DepotWorkspace {
    /// Labels a point. A label that is taken is `already_exists`.
    pub async fn snapshot(&self, label: &str, point: Point) -> Result<Snapshot> {
        let options = SnapshotOptions { point, is_lazy: false };
        self.take_snapshot(label, options).await
    }

    /// Labels a point, and records whether the depot knows every file of it.
    pub async fn take_snapshot(&self, label: &str, options: SnapshotOptions) -> Result<Snapshot> {
        check_label(label)?;
        let SnapshotOptions { point, is_lazy } = options;
        let (number, label) = (self.number, label.to_owned());
        let at = stored_time(self.shared().clock.now());
        let add = move |session: MetadataSession<'_>| {
            if session.snapshots().snapshot(number, &label)?.is_some() {
                let message = format!("the snapshot {} exists already", quote(&label));
                return Err(Error::new(ErrorKind::AlreadyExists, message).hint("choose another label"));
            }
            // A label wins over an id when a point is resolved, so a label that is an id would hide that change.
            if session.changes().change_by_id(&label)?.is_some() {
                return Err(invalid_label(&label));
            }
            let point = resolve_point(session, number, &point)?;
            let row = SnapshotRow {
                label,
                point,
                at,
                is_lazy,
            };
            session.snapshots().add_snapshot(number, &row)?;
            snapshot_of_row(session, row)
        };
        self.shared()
            .writer
            .write_weighed(JobWeight::Small, self.durability, add)
            .await
    }

    /// Returns the snapshots of the workspace, oldest first.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.shared().database.read(|session| {
            let rows = session.snapshots().list_snapshots(self.number)?;
            rows.into_iter().map(|row| snapshot_of_row(session, row)).collect()
        })
    }

    /// Deletes the label; the changes stay as long as retention keeps them.
    pub async fn delete_snapshot(&self, label: &str) -> Result<()> {
        let (number, label) = (self.number, label.to_owned());
        let remove = move |session: MetadataSession<'_>| {
            if session.snapshots().remove_snapshot(number, &label)? {
                return Ok(());
            }
            let message = format!("there is no snapshot {}", quote(&label));
            Err(Error::new(ErrorKind::NotFound, message).hint("list the snapshots to see their labels"))
        };
        self.shared().writer.write(self.durability, remove).await
    }
}

fn snapshot_of_row(session: MetadataSession<'_>, row: SnapshotRow) -> Result<Snapshot> {
    let workspace = session.workspaces().workspace(row.point.workspace)?;
    Ok(Snapshot {
        label: row.label,
        workspace: workspace.map(|row| row.uid).unwrap_or_default(),
        number: row.point.at.unsigned_abs(),
        at: time_of(row.at),
        lazy: row.is_lazy,
        size: None,
    })
}

/// Checks that a label is valid and cannot be mistaken for another form of a point.
pub(crate) fn check_label(label: &str) -> Result<()> {
    let is_number = label.bytes().all(|byte| byte.is_ascii_digit());
    let is_other = is_number || label == Point::NOW || label.parse::<Timestamp>().is_ok();
    if label.is_empty() || label.len() > 200 || is_other || label.contains(|c: char| c.is_control()) {
        return Err(invalid_label(label));
    }
    Ok(())
}

fn invalid_label(label: &str) -> Error {
    Error::invalid(format!("{} cannot be the label of a snapshot", quote(label)))
        .hint("use up to 200 printable characters; neither a number, nor an id, nor a time, nor `now`")
}
