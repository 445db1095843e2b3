package main

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"time"

	"talon/host"
	"talon/host/config"
	"talon/host/daemon"
	"talon/host/gitrepo"
	"talon/sdk/nip19"
)

// usageSlack is by how much the git data of a repository may differ from what is noted. The server
// notes it after pushes and maintenance, and git writes small files of its own.
const usageSlack = 64 << 10

// gitUsage compares the bytes of git data that are noted with those on disk. A server notes them a
// moment after a push, so a difference must be there twice.
func (c *check) gitUsage(ctx context.Context, cfg *config.Config, db daemon.Store) error {
	found, err := differentGitUsage(ctx, cfg, db)
	if err != nil || len(found) == 0 {
		return err
	}
	select {
	case <-time.After(recheckAfter):
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	again, err := differentGitUsage(ctx, cfg, db)
	if err != nil {
		return err
	}
	for key, problem := range again {
		if _, twice := found[key]; twice {
			c.report(problem)
		}
	}
	return nil
}

// differentGitUsage returns a problem for each repository whose bytes on disk are not those that are
// noted.
func differentGitUsage(ctx context.Context, cfg *config.Config, db daemon.Store) (map[host.UsageKey]string, error) {
	onDisk := make(map[host.UsageKey]int64)
	for _, folder := range []string{"git", "git-prs"} {
		dirs, err := filepath.Glob(filepath.Join(cfg.GitFolder(), folder, "npub1*", "*.git"))
		if err != nil {
			return nil, err
		}
		for _, dir := range dirs {
			owner, err := nip19.DecodeNpub(filepath.Base(filepath.Dir(dir)))
			if err != nil {
				continue // not a repository, which is a problem of its own
			}
			identifier, err := gitrepo.IdentifierOf(dir)
			if err != nil {
				continue
			}
			bytes, err := gitrepo.FolderUsage(dir)
			if err != nil {
				return nil, err
			}
			if key, ok := host.UsageOfRepository(owner, identifier); ok {
				onDisk[key] += bytes
			}
		}
	}
	noted, err := db.LargestUsage(ctx, host.UsageByRepository, math.MaxInt32)
	if err != nil {
		return nil, fmt.Errorf("check the usage of repositories: %w", err)
	}
	for _, r := range noted {
		onDisk[r.UsageKey] -= r.Git
	}
	found := make(map[host.UsageKey]string)
	for key, more := range onDisk {
		if more < -usageSlack || more > usageSlack {
			found[key] = "usage of " + plain(usageName(key)) + ": the git data on disk has " + differenceText(more) + " than noted"
		}
	}
	return found, nil
}

// differenceText says by how many bytes something is more, or fewer if the number is negative.
func differenceText(bytes int64) string {
	if bytes < 0 {
		return fmt.Sprintf("%d bytes fewer", -bytes)
	}
	return fmt.Sprintf("%d bytes more", bytes)
}
