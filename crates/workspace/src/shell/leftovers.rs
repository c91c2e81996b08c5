//! Leftovers: layers whose effects are in no change, because their process died before it could commit them, or because
//! they could not be saved.

use std::sync::Arc;

use garret_core::path::quote;
use garret_core::{BenchState, Effect, EffectsMode, Error, ErrorKind, Layer, Origin, Result, Taken};
use schemars::JsonSchema;
use serde::Serialize;

use super::keep::{Basis, Kept, Maker};
use super::result::{Changed, Refusal};
use super::workshop::{Held, Workshop};
use super::{label, note};
use crate::Workspace;

/// A layer with effects that are in no change: Garret ended in the middle of the command, or the effects could not be
/// saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Leftover {
    /// Its id.
    pub id: String,
    /// Who worked on it, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What keeping it would do.
    pub changed: Changed,
}

/// The bench under the leftovers of a workspace.
#[derive(Debug)]
struct Left {
    state: BenchState,
    /// `None` while a live layer lies over the bench: then the live layer holds it.
    held: Option<Held>,
}

impl Left {
    async fn take(self, excluded: &[Effect]) -> Result<()> {
        let taken = Taken {
            committed: &[],
            excluded,
            head: self.state.head,
        };
        match self.held {
            Some(held) => held.take(taken).await,
            None => Ok(()),
        }
    }

    async fn release(self) -> Result<()> {
        match self.held {
            Some(held) => held.release().await,
            None => Ok(()),
        }
    }
}

impl Workspace {
    /// Returns the leftovers, each with the changes that a commit of it would make.
    pub async fn leftovers(&self) -> Result<Vec<Leftover>> {
        let work = async {
            let shop = self.workshop()?;
            let _turn = shop.take_bench_turn(self, "garret leftovers").await?;
            let mut found = Vec::new();
            let (left, layers) = self.left(shop).await?;
            for layer in layers {
                found.push(self.look_at_leftover(shop, &left, &*layer).await);
            }
            left.release().await?;
            Ok(found)
        };
        self.observe("leftovers", None, |_| 0, work).await
    }

    /// Commits a leftover as a change, or on a branch if others changed the same paths since.
    pub async fn commit_leftover(&self, id: &str) -> Result<Changed> {
        let work = async {
            let shop = self.workshop()?;
            let _turn = shop.take_bench_turn(self, "garret leftovers").await?;
            let (left, layer) = self.left_by_id(shop, id).await?;
            let (_, changed, excluded) = self.keep_leftover(shop, &left, &*layer, EffectsMode::Commit).await?;
            if changed.refused.is_some() {
                left.release().await?;
                return Ok(changed);
            }
            let state = left.state.clone();
            left.take(&excluded).await?;
            self.drop_leftover(shop, &state, &*layer).await?;
            Ok(changed)
        };
        self.observe("commit_leftover", None, |_| 0, work).await
    }

    /// Discards a leftover.
    pub async fn discard_leftover(&self, id: &str) -> Result<()> {
        let work = async {
            let shop = self.workshop()?;
            let _turn = shop.take_bench_turn(self, "garret leftovers").await?;
            let (left, layer) = self.left_by_id(shop, id).await?;
            self.drop_leftover(shop, &left.state, &*layer).await?;
            left.release().await
        };
        self.observe("discard_leftover", None, |()| 0, work).await
    }

    async fn left(&self, shop: &Arc<Workshop>) -> Result<(Left, Vec<Arc<dyn Layer>>)> {
        if !self.view.base.is_root() {
            return Err(Error::new(ErrorKind::Denied, "a scope has no leftovers").hint("use the whole workspace"));
        }
        let under = shop.under(self);
        let fence = under.fence().await?;
        // The bench must not change under a live layer, so it is not brought up to date then.
        let left = match shop.live.state().await {
            Some(state) => Left { state, held: None },
            None => {
                let (state, held) = shop.ready().await?;
                Left {
                    state,
                    held: Some(held),
                }
            }
        };
        let layers = shop.sandbox_for(&fence, &left.state).await?.leftovers().await?;
        Ok((left, layers))
    }

    async fn left_by_id(&self, shop: &Arc<Workshop>, id: &str) -> Result<(Left, Arc<dyn Layer>)> {
        let (left, layers) = self.left(shop).await?;
        let found = layers.into_iter().find(|layer| layer.id() == id);
        let layer = found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("unknown leftover {}", quote(id)))
                .hint("`leftovers` lists all leftovers")
        })?;
        Ok((left, layer))
    }

    /// Returns a leftover with the changes that a commit of it would make. If they cannot be read, as on a full disk,
    /// the leftover is still returned, with the reason, so that it can be discarded.
    async fn look_at_leftover(&self, shop: &Arc<Workshop>, left: &Left, layer: &dyn Layer) -> Leftover {
        let id = layer.id().to_owned();
        match self.keep_leftover(shop, left, layer, EffectsMode::Discard).await {
            Ok((command, changed, _)) => Leftover {
                id,
                command,
                // The preview discards nothing.
                changed: Changed {
                    discarded: false,
                    ..changed
                },
            },
            Err(error) => Leftover {
                command: note::read(&left.state, &id).map(|note| note.command),
                id,
                changed: Changed {
                    refused: Some(Refusal::from(&error)),
                    ..Changed::default()
                },
            },
        }
    }

    async fn keep_leftover(
        &self,
        shop: &Arc<Workshop>,
        left: &Left,
        layer: &dyn Layer,
        mode: EffectsMode,
    ) -> Result<(Option<String>, Changed, Vec<Effect>)> {
        let under = shop.under(self);
        layer.lift().await?;
        let effects = shop.effects_of(layer, &left.state, None).await?;
        let known = note::read(&left.state, layer.id());
        let command = known.as_ref().map(|note| note.command.clone());
        // Without a note the state under the layer is not known, so every change since the first one counts as one by
        // others.
        let basis = known.as_ref().map_or_else(Basis::beginning, note::Note::basis);
        let split = under.split(shop, effects.effects).await?;
        let words = command.as_deref().map_or_else(String::new, |command| {
            format!(" `{}`", label::printed(&label::short(command)))
        });
        let maker = Maker {
            origin: Origin {
                command: command.clone(),
                ..under.origin("commit_leftover", format!("work of{words} that was not saved before"))
            },
            mode,
            has_quota_turns: false,
        };
        let keeping = under.keep(&split, &basis, maker).await?;
        let excluded = match keeping.kept {
            Kept::Refused(_) => Vec::new(),
            _ => split.excluded,
        };
        let changed = self.changed(&keeping, &excluded, &effects.dropped, shop);
        Ok((command, changed, excluded))
    }

    async fn drop_leftover(&self, shop: &Arc<Workshop>, state: &BenchState, layer: &dyn Layer) -> Result<()> {
        layer.remove().await?;
        note::remove(state, layer.id());
        shop.forget_leftover(layer.id()).await;
        Ok(())
    }
}
