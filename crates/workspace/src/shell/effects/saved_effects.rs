//! Whether the effects on an abandoned layer are saved already: in the files, in a change, or on a conflict branch. Then
//! its process died between the commit and the removal of the layer.

use std::collections::BTreeSet;

use garret_core::{Effect, History, PlacedEntry, Point, Result, Storage};

use crate::shell::effects::commit_effects::EffectBasis;
use crate::shell::effects::effects_plan::{is_in_any_storage, plan_puts};
use crate::shell::effects::layer_note::LayerNote;
use crate::shell::runtime::ShellRuntime;

/// The effects on an abandoned layer.
struct AbandonedEffects {
    plain: Vec<Effect>,
    /// The effects at names that are not UTF-8. A view of the history has no such names.
    raw: Vec<Effect>,
}

impl ShellRuntime {
    /// Whether all of these effects are saved. Without a note every state since the first change counts.
    pub(super) async fn are_effects_saved(&self, effects: &[Effect], note: Option<&LayerNote>) -> Result<bool> {
        if effects.is_empty() {
            return Ok(false);
        }
        let (plain, raw) = effects
            .iter()
            .cloned()
            .partition(|effect| effect.path.as_path().is_some());
        let abandoned = AbandonedEffects { plain, raw };
        let files = self.plain_files.storage();
        let Some(history) = self.plain_files.source.history.as_deref() else {
            // Names that are not UTF-8 are never committed to files without history.
            return Ok(are_all_in(&[files], &abandoned.plain).await);
        };
        let basis = LayerNote::basis_or_first(note);
        if self.is_state_at_basis(history, &basis, &abandoned).await? {
            return Ok(true);
        }
        // The newest change first: the process died right after the commit.
        for number in (basis.head + 1..=history.head().await?).rev() {
            if history.change(&Point::Number(number)).await?.0.actor.command.is_some()
                && self.are_at_change(history, number, &abandoned).await?
            {
                return Ok(true);
            }
        }
        match note.and_then(|note| note.branch.as_deref()) {
            Some(branch) => self.are_on_branch(history, branch, &abandoned).await,
            None => Ok(false),
        }
    }

    /// Whether the files had all effects at the basis already. The basis of a live layer is the newest change that its
    /// processes or others made, and each of them is on the layer.
    async fn is_state_at_basis(
        &self,
        history: &dyn History,
        basis: &EffectBasis,
        abandoned: &AbandonedEffects,
    ) -> Result<bool> {
        // A view of files that live elsewhere lacks those that the history never met, so a removal must show in the
        // files, too.
        let removed = abandoned.plain.iter();
        let removed = removed.filter(|effect| effect.placed == PlacedEntry::Nothing);
        for effect in removed {
            if !is_in_any_storage(&[self.plain_files.storage()], effect).await {
                return Ok(false);
            }
        }
        self.are_at_change(history, basis.head, abandoned).await
    }

    /// Whether the files had all effects after the change `number`.
    async fn are_at_change(&self, history: &dyn History, number: u64, abandoned: &AbandonedEffects) -> Result<bool> {
        let files = history.open_view(&Point::Number(number)).await?;
        if !are_all_in(&[&*files], &abandoned.plain).await {
            return Ok(false);
        }
        // A plan compares the raw names with the present files, and refuses if they were changed since.
        self.plans_nothing(history, &abandoned.raw, number).await
    }

    /// Whether a put of `effects` would change nothing.
    async fn plans_nothing(&self, history: &dyn History, effects: &[Effect], head: u64) -> Result<bool> {
        if effects.is_empty() {
            return Ok(true);
        }
        let at = self.file_time().await?;
        let planned = history.plan_put(&plan_puts(effects, &EffectBasis { head, at })).await;
        Ok(planned.is_ok_and(|paths| paths.is_empty()))
    }

    /// Whether each effect is on the conflict branch, or in the files. Effects that others had made in the same way did
    /// not go on the branch.
    async fn are_on_branch(&self, history: &dyn History, name: &str, abandoned: &AbandonedEffects) -> Result<bool> {
        let branches = history.branches().await?;
        let found = branches.iter().find(|branch| branch.name.as_deref() == Some(name));
        // Without a change the process died between the making of the branch and the commit on it.
        let Some(branch) = found.filter(|branch| branch.change_count > 0) else {
            return Ok(false);
        };
        let aside = history.branch_history(&branch.id).await?;
        // The changes of a branch are numbered from 1.
        let first = Point::Number(1);
        let files = aside.open_view(&first).await?;
        let touched = aside.change(&first).await?.1.into_iter().map(|one| one.path);
        let touched: BTreeSet<_> = touched.collect();
        for effect in &abandoned.plain {
            let branch_files = touched.contains(&effect.path).then_some(&*files);
            let sides: Vec<_> = branch_files.into_iter().chain([self.plain_files.storage()]).collect();
            if !is_in_any_storage(&sides, effect).await {
                return Ok(false);
            }
        }
        self.plans_nothing(&*aside, &abandoned.raw, u64::MAX).await
    }
}

async fn are_all_in(files: &[&dyn Storage], effects: &[Effect]) -> bool {
    for effect in effects {
        if !is_in_any_storage(files, effect).await {
            return false;
        }
    }
    true
}
