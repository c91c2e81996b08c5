# Each target is one line; what it does lives in scripts/.
.DEFAULT_GOAL := help
.PHONY: help run test test-real-work test-kill test-powerloss test-hiding bench lint docs fuzz

help: ## List the targets
	@sed -n 's/^\([a-z-]*\): ## /  make \1\t/p' Makefile | expand -t 24

run: ## Build the release binary and take the tour
	@cargo run --release --package garret-cli --bin garret -- demo

test: ## Set up, lint, test, fuzz briefly and check the docs: what CI runs
	@scripts/test

test-real-work: ## Build and test real projects in the sandbox, with packages from the network
	@scripts/test-real-work

test-kill: ## Kill the depot's process under load, again and again (COUNT=1000)
	@scripts/kill-harness $(COUNT)

test-powerloss: ## Cut the power at many recorded moments and reopen (CUTS=600)
	@scripts/test-powerloss

test-hiding: ## Start commands beside a busy writer of what they may not see (STARTS=1000)
	@scripts/test-hiding

bench: ## Measure Garret against the floor and write docs/benchmarks.md
	@scripts/bench

lint: ## Check format, lints, dependencies, promises and hygiene
	@scripts/lint

docs: ## Build the API docs and regenerate docs/reference
	@scripts/docs

fuzz: ## Fuzz every target (FUZZ_SECONDS=60 each)
	@scripts/fuzz
