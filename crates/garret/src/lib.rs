//! Workspaces for AI agents: files, tools and a way back. Configuration or URL in, workspace out.
