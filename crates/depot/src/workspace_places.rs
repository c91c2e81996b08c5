//! Finds workspaces whose files live outside the depot by the place of those files.

use garret_core::path::quote;
use garret_core::{Error, ErrorKind, Result};

use crate::depot::{Depot, NewWorkspace, WorkspaceInfo, check_name, check_name_free, find_workspace, workspace_info};
use crate::error::damaged_content;
use crate::metadata::{MetadataSession, WorkspaceRow, stored_time};
use crate::workspace::DepotWorkspace;

/// The location of the files of a workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Site {
    /// The kind of storage.
    pub kind: String,
    /// An identifier that is unique among the places of the kind; `None` if the files do not outlive their handle.
    pub place: Option<String>,
}

impl Depot {
    /// Returns the workspace whose files live at `place` of a storage of `kind`.
    pub async fn workspace_at(&self, kind: &str, place: &str) -> Result<Option<DepotWorkspace>> {
        let row = self.shared.database.read(|session| find_at(session, kind, place))?;
        Ok(row.map(|row| self.workspace_handle(&row)))
    }

    /// Returns the place of the files of `workspace` in the storage of its kind; `None` if they live in the depot.
    pub async fn place_of(&self, workspace: &DepotWorkspace) -> Result<Option<String>> {
        let found = self
            .shared
            .database
            .read(|session| session.outside_files().place_of_files(workspace.number))?;
        Ok(found.map(|(_, place)| place))
    }

    /// Returns the place of the files of the workspace with this id, deleted or not, in the storage of its kind; `None`
    /// if they live in the depot.
    pub fn place_of_id(&self, id: &str) -> Result<Option<String>> {
        let found = self.shared.database.read(|session| {
            let row = find_workspace(session, id)?;
            session.outside_files().place_of_files(row.id)
        })?;
        Ok(found.map(|(_, place)| place))
    }

    /// Returns the workspace whose files live at `site`; creates it with the id `uid` if there is none.
    pub(crate) async fn workspace_at_site(&self, site: Site, uid: String) -> Result<DepotWorkspace> {
        let created = stored_time(self.shared.clock.now());
        let add = move |session: MetadataSession<'_>| {
            if let Some(place) = &site.place
                && let Some(row) = find_at(session, &site.kind, place)?
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
            let id = session.workspaces().add_workspace(&row)?;
            free_place(session, &site)?;
            session
                .outside_files()
                .add_journal(id, &site.kind, site.place.as_deref())?;
            Ok(WorkspaceRow { id, ..row })
        };
        let row = self.shared.writer.write(self.shared.options.durability, add).await?;
        Ok(self.workspace_handle(&row))
    }

    /// Assigns the name and the configuration of `new` to the workspace whose files live at `place`, and creates it if
    /// there is none. A workspace that has a name already is `already_exists`.
    pub async fn claim_place(&self, kind: &str, place: &str, new: NewWorkspace) -> Result<DepotWorkspace> {
        let site = Site {
            kind: kind.to_owned(),
            place: Some(place.to_owned()),
        };
        let row = self.workspace_at_site(site, self.shared.ids.next_id()).await?.number;
        if let Some(name) = &new.name {
            check_name(name)?;
        }
        let claim = move |session: MetadataSession<'_>| {
            let row = session
                .workspaces()
                .workspace(row)?
                .ok_or_else(|| damaged_content("the record of a workspace is missing"))?;
            if let Some(name) = &row.name {
                let message = format!("these files already belong to the workspace {}", quote(name));
                return Err(Error::new(ErrorKind::AlreadyExists, message).hint("open it by that name, or rename it"));
            }
            check_name_free(session, new.name.as_deref())?;
            session.workspaces().set_name(row.id, new.name.as_deref())?;
            session.workspaces().set_config(row.id, &new.config.to_string())?;
            Ok(row)
        };
        let row = self.shared.writer.write(self.shared.options.durability, claim).await?;
        Ok(self.workspace_handle(&row))
    }

    /// Recovers the deleted workspace `name`, whose files live at `place` of a storage of `kind`. If another workspace
    /// has the place now, that is `already_exists`, and the error names it.
    pub async fn recover_at(&self, name: &str, kind: &str, place: &str) -> Result<()> {
        let (name, kind, place) = (name.to_owned(), kind.to_owned(), place.to_owned());
        let recover = move |session: MetadataSession<'_>| {
            let row = find_workspace(session, &name)?;
            if let Some(owner) = find_at(session, &kind, &place)?.filter(|owner| owner.id != row.id) {
                return Err(place_taken_error(&row, &owner));
            }
            let place = Some(place);
            free_place(
                session,
                &Site {
                    kind,
                    place: place.clone(),
                },
            )?;
            session.outside_files().set_place(row.id, place.as_deref())?;
            session.workspaces().set_deleted(row.id, None)
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
        let replace = move |session: MetadataSession<'_>| {
            let row = session
                .workspaces()
                .workspace(number)?
                .ok_or_else(|| damaged_content("the record of a workspace is missing"))?;
            let now = workspace_info(session, row)?;
            let is_same = now.kind == before.kind && now.config == before.config;
            if is_same {
                session.workspaces().set_config(number, &config)?;
            }
            Ok(is_same)
        };
        self.shared.writer.write(self.shared.options.durability, replace).await
    }
}

/// Moves the workspace `number` to the files at `site`, which `config` opens.
pub(crate) fn move_to_site(session: MetadataSession<'_>, number: i64, site: &Site, config: &str) -> Result<()> {
    check_unclaimed(session, site)?;
    free_place(session, site)?;
    session
        .outside_files()
        .add_journal(number, &site.kind, site.place.as_deref())?;
    session.workspaces().set_kind(number, &site.kind)?;
    session.workspaces().set_config(number, config)
}

/// Checks that no workspace has its files at `site`.
pub(crate) fn check_unclaimed(session: MetadataSession<'_>, site: &Site) -> Result<()> {
    let owner = site.place.as_ref().map(|place| find_at(session, &site.kind, place));
    match owner.transpose()?.flatten() {
        None => Ok(()),
        Some(_) => Err(
            Error::new(ErrorKind::AlreadyExists, "another workspace has its files there")
                .hint("choose an empty directory"),
        ),
    }
}

/// Checks that no other workspace took the place of a workspace while it was deleted.
pub(crate) fn check_place_kept(session: MetadataSession<'_>, row: &WorkspaceRow) -> Result<()> {
    let is_elsewhere = session.outside_files().journal(row.id)?.is_some();
    if is_elsewhere && session.outside_files().place_of_files(row.id)?.is_none() {
        let message = "another workspace has taken over its files since it was deleted";
        Err(Error::new(ErrorKind::AlreadyExists, message).hint("delete that one first, then recover this one"))
    } else {
        Ok(())
    }
}

/// Returns the error for a workspace that cannot be recovered because `owner` has its place.
fn place_taken_error(row: &WorkspaceRow, owner: &WorkspaceRow) -> Error {
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
fn find_at(session: MetadataSession<'_>, kind: &str, place: &str) -> Result<Option<WorkspaceRow>> {
    let Some(number) = session.outside_files().workspace_at(kind, place)? else {
        return Ok(None);
    };
    Ok(session
        .workspaces()
        .workspace(number)?
        .filter(|row| row.deleted.is_none()))
}

/// Frees a place that belongs to a deleted workspace.
fn free_place(session: MetadataSession<'_>, site: &Site) -> Result<()> {
    let Some(place) = &site.place else { return Ok(()) };
    match session.outside_files().workspace_at(&site.kind, place)? {
        Some(deleted) => session.outside_files().set_place(deleted, None),
        None => Ok(()),
    }
}
