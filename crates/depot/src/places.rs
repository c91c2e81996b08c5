//! Finds workspaces whose files live outside the depot by the place of those files.

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Result};

use crate::depot::{Depot, NewWorkspace, WorkspaceInfo, check_free, check_name, find, info};
use crate::error::damaged;
use crate::metadata::{Session, WorkspaceRow, stored_time};
use crate::workspace::DepotWorkspace;

/// The location of the files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// The kind of storage.
    pub(crate) kind: String,
    /// An identifier that is unique among the places of the kind; `None` if the files do not outlive their handle.
    pub(crate) place: Option<String>,
}

impl Depot {
    /// Returns the workspace whose files live at `place` of a storage of `kind`.
    pub async fn workspace_at(&self, kind: &str, place: &str) -> Result<Option<DepotWorkspace>> {
        let row = self.shared.database.read(|session| found_at(session, kind, place))?;
        Ok(row.map(|row| self.handle(&row)))
    }

    /// Returns the place of the files of `workspace` in the storage of its kind; `None` if they live in the depot.
    pub async fn place_of(&self, workspace: &DepotWorkspace) -> Result<Option<String>> {
        let found = self.shared.database.read(|session| session.place(workspace.number))?;
        Ok(found.map(|(_, place)| place))
    }

    /// Returns the place of the files of the workspace with this id, deleted or not, in the storage of its kind; `None`
    /// if they live in the depot.
    pub fn place_of_id(&self, id: &str) -> Result<Option<String>> {
        let found = self.shared.database.read(|session| {
            let row = find(session, id)?;
            session.place(row.id)
        })?;
        Ok(found.map(|(_, place)| place))
    }

    /// Returns the workspace whose files live at `site`; creates it with the id `uid` if there is none.
    pub(crate) async fn journal_of(&self, site: Site, uid: String) -> Result<DepotWorkspace> {
        let created = stored_time(self.shared.clock.now());
        let add = move |session: Session<'_>| {
            if let Some(place) = &site.place
                && let Some(row) = found_at(session, &site.kind, place)?
            {
                return Ok(row);
            }
            let row = WorkspaceRow {
                id: 0,
                uid,
                name: None,
                kind: site.kind.clone(),
                config: "{}".to_owned(),
                fork: None,
                is_flat: false,
                head: 0,
                created,
                deleted: None,
            };
            let id = session.add_workspace(&row)?;
            make_room(session, &site)?;
            session.add_journal(id, &site.kind, site.place.as_deref())?;
            Ok(WorkspaceRow { id, ..row })
        };
        let row = self.shared.writer.write(self.shared.options.durability, add).await?;
        Ok(self.handle(&row))
    }

    /// Assigns the name and the configuration of `new` to the workspace whose files live at `place`, and creates it if
    /// there is none. A workspace that has a name already is `already_exists`.
    pub async fn claim(&self, kind: &str, place: &str, new: NewWorkspace) -> Result<DepotWorkspace> {
        let site = Site {
            kind: kind.to_owned(),
            place: Some(place.to_owned()),
        };
        let row = self.journal_of(site, self.shared.ids.next()).await?.number;
        if let Some(name) = &new.name {
            check_name(name)?;
        }
        let claim = move |session: Session<'_>| {
            let row = session
                .workspace(row)?
                .ok_or_else(|| damaged("the record of a workspace is missing"))?;
            if let Some(name) = &row.name {
                let message = format!("these files already belong to the workspace {}", quote(name));
                return Err(Error::new(ErrorKind::AlreadyExists, message).hint("open it by that name, or rename it"));
            }
            check_free(session, new.name.as_deref())?;
            session.set_name(row.id, new.name.as_deref())?;
            session.set_config(row.id, &new.config.to_string())?;
            Ok(row)
        };
        let row = self.shared.writer.write(self.shared.options.durability, claim).await?;
        Ok(self.handle(&row))
    }

    /// Recovers the deleted workspace `name`, whose files live at `place` of a storage of `kind`. If another workspace
    /// has the place now, that is `already_exists`, and the error names it.
    pub async fn recover_at(&self, name: &str, kind: &str, place: &str) -> Result<()> {
        let (name, kind, place) = (name.to_owned(), kind.to_owned(), place.to_owned());
        let recover = move |session: Session<'_>| {
            let row = find(session, &name)?;
            if let Some(owner) = found_at(session, &kind, &place)?.filter(|owner| owner.id != row.id) {
                return Err(taken(&row, &owner));
            }
            let place = Some(place);
            make_room(
                session,
                &Site {
                    kind,
                    place: place.clone(),
                },
            )?;
            session.set_place(row.id, place.as_deref())?;
            session.set_deleted(row.id, None)
        };
        self.shared.writer.write(self.shared.options.durability, recover).await
    }

    /// Replaces the configuration of `workspace` if its kind and configuration are still those of `before`. Returns
    /// whether they are.
    pub async fn replace_config(
        &self,
        workspace: &DepotWorkspace,
        before: &WorkspaceInfo,
        config: &serde_json::Value,
    ) -> Result<bool> {
        let (number, before, config) = (workspace.number, before.clone(), config.to_string());
        let replace = move |session: Session<'_>| {
            let row = session
                .workspace(number)?
                .ok_or_else(|| damaged("the record of a workspace is missing"))?;
            let now = info(session, row)?;
            let is_same = now.kind == before.kind && now.config == before.config;
            if is_same {
                session.set_config(number, &config)?;
            }
            Ok(is_same)
        };
        self.shared.writer.write(self.shared.options.durability, replace).await
    }
}

/// Moves the workspace `number` to the files at `site`, which `config` opens.
pub(crate) fn move_in(session: Session<'_>, number: i64, site: &Site, config: &str) -> Result<()> {
    check_unclaimed(session, site)?;
    make_room(session, site)?;
    session.add_journal(number, &site.kind, site.place.as_deref())?;
    session.set_kind(number, &site.kind)?;
    session.set_config(number, config)
}

/// Checks that no workspace has its files at `site`.
pub(crate) fn check_unclaimed(session: Session<'_>, site: &Site) -> Result<()> {
    let owner = site.place.as_ref().map(|place| found_at(session, &site.kind, place));
    match owner.transpose()?.flatten() {
        None => Ok(()),
        Some(_) => Err(
            Error::new(ErrorKind::AlreadyExists, "another workspace has its files there")
                .hint("choose an empty directory"),
        ),
    }
}

/// Checks that no other workspace took the place of a workspace while it was deleted.
pub(crate) fn check_placed(session: Session<'_>, row: &WorkspaceRow) -> Result<()> {
    let is_elsewhere = session.journal(row.id)?.is_some();
    if is_elsewhere && session.place(row.id)?.is_none() {
        let message = "another workspace has taken over its files since it was deleted";
        Err(Error::new(ErrorKind::AlreadyExists, message).hint("delete that one first, then recover this one"))
    } else {
        Ok(())
    }
}

/// Returns the error for a workspace that cannot be recovered because `owner` has its place.
fn taken(row: &WorkspaceRow, owner: &WorkspaceRow) -> Error {
    let own = quote(row.name.as_deref().unwrap_or(&row.uid));
    let (message, hint) = match &owner.name {
        Some(name) => (
            format!("the files of {own} now belong to the workspace {}", quote(name)),
            format!("delete {} first, then recover {own}; or continue with {0}", quote(name)),
        ),
        None => (
            format!("the files of {own} now have an unnamed history, which began after {own} was deleted"),
            format!(
                "delete that history first (its id is {}), then recover {own}",
                quote(&owner.uid)
            ),
        ),
    };
    Error::new(ErrorKind::AlreadyExists, message).hint(hint)
}

/// Returns the workspace at a place, unless it was deleted: then the place is free again.
fn found_at(session: Session<'_>, kind: &str, place: &str) -> Result<Option<WorkspaceRow>> {
    let Some(number) = session.workspace_at(kind, place)? else {
        return Ok(None);
    };
    Ok(session.workspace(number)?.filter(|row| row.deleted.is_none()))
}

/// Frees a place that belongs to a deleted workspace.
fn make_room(session: Session<'_>, site: &Site) -> Result<()> {
    let Some(place) = &site.place else { return Ok(()) };
    match session.workspace_at(&site.kind, place)? {
        Some(deleted) => session.set_place(deleted, None),
        None => Ok(()),
    }
}
