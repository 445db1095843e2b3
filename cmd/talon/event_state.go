package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
	hostgrasp "talon/host/grasp"
	"talon/sdk/grasp"
)

func eventStateCommand() *cobra.Command {
	var who signing
	var how sending
	var identifier, dir string
	var show bool
	cmd := &cobra.Command{
		Use:   "state RELAY...",
		Short: "Say with a signature where a repository's branches and tags are (NIP-34)",
		Long: `Sign a repository state (kind 30618, NIP-34) made of the branches, tags and HEAD of a local git repository, and send it to relays.

A GRASP server takes the push that makes its repository the same as the state: send the state first, then push all branches and tags at once. An annotated
tag stands for itself, as git push sends it, not for the commit behind it. Branches and tags that are not in the state are deleted on the server.`,
		Example: `  talon event state --key alice.key --identifier demo ws://localhost:7777
  git push --prune http://localhost:7777/npub1…/demo.git 'refs/heads/*' 'refs/tags/*'`,
		Args: cobra.ArbitraryArgs,
	}
	who.flags(cmd)
	how.flags(cmd)
	cmd.Flags().StringVar(&identifier, "identifier", "", "the repository's identifier (tag d), as in its announcement")
	cmd.Flags().StringVar(&dir, "git", ".", "the `folder` of the local repository")
	printFlag(cmd, &show)
	cmd.RunE = func(cmd *cobra.Command, addresses []string) error {
		if identifier == "" {
			return errors.New("the repository has no identifier: say with --identifier which one it was announced by")
		}
		refs, err := readRefs(cmd.Context(), dir)
		if err != nil {
			return fmt.Errorf("read the refs of %s: %w", dir, err)
		}
		e := &host.Event{Kind: grasp.KindState, Tags: append(host.Tags{{"d", identifier}}, refs...)}
		if err := checkState(e); err != nil {
			return err
		}
		return signAndSendOrPrint(cmd, &who, &how, e, addresses, show)
	}
	return cmd
}

// checkState reads a state as a server does. One with a fault would be accepted
// and then wait for ever for a push that meets it.
func checkState(e *host.Event) error {
	state, err := grasp.ParseState(hostgrasp.Event(e))
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "invalid: "))
	}
	for _, f := range state.Faults {
		return fmt.Errorf("no server can have the ref %q: %s", f.Ref, f.Reason)
	}
	return nil
}

// Bounds of what git is asked.
const (
	refsTime  = time.Minute
	refsBytes = inputBytes
)

// readRefs returns the branches, tags and HEAD of a repository, as tags of a state.
func readRefs(ctx context.Context, dir string) (host.Tags, error) {
	ctx, cancel := context.WithTimeout(ctx, refsTime)
	defer cancel()
	list, err := runGit(ctx, dir, "for-each-ref", "--format=%(objectname) %(refname)", "refs/heads", "refs/tags")
	if err != nil {
		return nil, err
	}
	var tags host.Tags
	for line := range strings.Lines(list) {
		oid, ref, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok {
			return nil, fmt.Errorf("git for-each-ref printed %q, which is no ref", line)
		}
		tags = append(tags, host.Tag{ref, oid})
	}
	if len(tags) == 0 {
		return nil, errors.New("it has no branches and no tags: commit something first")
	}
	head, err := runGit(ctx, dir, "symbolic-ref", "--quiet", "HEAD")
	var status *exec.ExitError
	switch {
	case errors.As(err, &status) && status.ExitCode() == 1:
		return tags, nil // HEAD is detached: it names no branch
	case err != nil:
		return nil, err
	}
	return append(tags, host.Tag{"HEAD", "ref: " + strings.TrimSuffix(head, "\n")}), nil
}

// runGit returns what git prints about a repository.
func runGit(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	cmd.Env = append(os.Environ(), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C")
	out, errOut := &bounded{most: refsBytes}, &bounded{most: 4096}
	cmd.Stdout, cmd.Stderr = out, errOut
	err := cmd.Run()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", errors.New("the program git is not installed, or not in the PATH")
	case err == nil && out.over:
		return "", errors.New("it has more refs than an event can hold")
	case err == nil:
		return out.kept.String(), nil
	case ctx.Err() != nil:
		return "", fmt.Errorf("git %s: %w", args[0], ctx.Err())
	}
	if text := strings.TrimSpace(errOut.kept.String()); text != "" {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, plain(text))
	}
	return "", fmt.Errorf("git %s: %w", args[0], err)
}

// bounded keeps the beginning of what is written.
type bounded struct {
	kept bytes.Buffer
	most int
	over bool
}

func (b *bounded) Write(p []byte) (int, error) {
	room := b.most - b.kept.Len()
	if len(p) > room {
		b.over = true
	}
	_, _ = b.kept.Write(p[:min(len(p), room)])
	return len(p), nil
}
