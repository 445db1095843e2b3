package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"talon/sdk/grasp"
)

// pushing are the options of a push.
type pushing struct {
	dir, head string
	relays    []string
	dryRun    bool
	git       []string // git's own options, as they were given

	helper remoteHelper
}

// gitPushFlags are the options that go to git push as they are.
var gitPushFlags = []struct{ name, short, usage string }{
	{"all", "", "push all branches"},
	{"tags", "", "push all tags, too"},
	{"follow-tags", "", "push annotated tags of what is pushed, too"},
	{"force", "f", "also move branches to where their old commits are not"},
	{"delete", "d", "remove the refs that are named"},
	{"prune", "", "remove branches that are not in the local repository"},
	{"set-upstream", "u", "pull from there by default"},
}

func eventPushCommand() *cobra.Command {
	var who signing
	var how sending
	var what pushing
	cmd := &cobra.Command{
		Use:   "push [REMOTE [REFSPEC...]]",
		Short: "Sign the new state of a repository and push it with git (NIP-34)",
		Long: `Sign where the branches and tags of a repository are after a push, send that state to its GRASP server, and push with git.

What is pushed is git's to say: remote, refspecs, push.default and the options below mean what they mean to git push, and what git would refuse is not
signed. All other branches and tags of the state in effect stay as they are. HEAD stays, too, unless --head moves it; a first state has the branch that is
checked out.

The remote must be a repository of a GRASP server, http(s)://HOST/NPUB/IDENTIFIER.git; the state goes to the relay at the same address, and to each --relay.`,
		Example: `  talon event push --key alice.key
  talon event push --key alice.key origin main v1.0
  talon event push --key alice.key http://localhost:7777/npub1…/demo.git --all --follow-tags
  talon event push --key alice.key --dry-run`,
		Args: cobra.ArbitraryArgs,
	}
	who.flags(cmd)
	how.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&what.dir, "git", ".", "the `folder` of the local repository")
	f.StringVar(&what.head, "head", "", "the `branch` that HEAD is to name, which clones check out (default as it is)")
	f.StringArrayVar(&what.relays, "relay", nil, "send the state to the relay at this `url`, too; may be repeated")
	f.BoolVarP(&what.dryRun, "dry-run", "n", false, "show what would be signed and pushed, and do nothing")
	for _, g := range gitPushFlags {
		f.BoolP(g.name, g.short, false, "git: "+g.usage)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if slices.ContainsFunc(gitPushFlags, func(g struct{ name, short, usage string }) bool { return g.name == f.Name }) && f.Value.String() == "true" {
				what.git = append(what.git, "--"+f.Name)
			}
		})
		return what.run(cmd, &who, &how, args)
	}
	return cmd
}

func (p *pushing) run(cmd *cobra.Command, who *signing, how *sending, args []string) error {
	key, author, err := who.identity()
	if err != nil {
		return err
	}
	p.helper = newRemoteHelper(cmd.Context(), p.dir, args)
	defer p.helper.close()
	intent, err := p.ask(cmd.Context(), args)
	if err != nil {
		return err
	}
	addresses := append(slices.Clone(intent.relays), p.relays...)
	if err := how.check(addresses); err != nil {
		return err
	}
	now, err := readServed(cmd, how, addresses, &key, intent.repo)
	if err != nil {
		return err
	}
	if err := now.checkAuthor(author, intent.repo); err != nil {
		return err
	}
	plan := newPlan(now.state)
	intent.apply(plan.next)
	if err := plan.check(); err != nil {
		return err
	}
	local, err := readHead(cmd.Context(), p.dir)
	if err != nil {
		return err
	}
	if err := plan.setHead(p.head, local); err != nil {
		return err
	}
	plan.write(cmd.ErrOrStderr())
	if plan.changed() {
		e, err := plan.event(intent.repo.Identifier)
		if err != nil {
			return err
		}
		if err := who.retryLater(e, now.state); err != nil {
			return err
		}
		if p.dryRun {
			return nil
		}
		held, err := sendVersion(cmd, who, how, e, addresses)
		if err != nil {
			return err
		}
		if !held && intent.removes() {
			// The server removes what is to go by itself, and git push knows no way to
			// remove what is not there.
			fmt.Fprintln(cmd.ErrOrStderr(), nothingLeft)
			return nil
		}
	}
	if p.dryRun || !intent.moves {
		return nil
	}
	return p.push(cmd, args, intent, how.timeout)
}

// push pushes. The hook has been asked before the state was signed.
//
// A server that has all that the state names removes what is to go by itself, and git push
// fails where it finds that gone.
func (p *pushing) push(cmd *cobra.Command, args []string, intent *pushIntent, timeout time.Duration) error {
	git := p.process(cmd.Context(), args, "--no-verify")
	git.Stdin, git.Stdout, git.Stderr = cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr()
	said := &bounded{max: 64 << 10}
	if intent.removes() {
		git.Stderr = said
	}
	err := git.Run()
	if err != nil && intent.removes() {
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		if p.isInLine(ctx, intent) {
			fmt.Fprintln(cmd.ErrOrStderr(), nothingLeft)
			return nil
		}
	}
	_, _ = said.kept.WriteTo(cmd.ErrOrStderr())
	if err != nil {
		return fmt.Errorf("the state was sent, and git did not push: %w", err)
	}
	return nil
}

const nothingLeft = "the server has all that the state names, and brings its branches and tags in line: nothing is left to push"

// isInLine reports whether the repository becomes what the push was to make of it. It waits
// for a server that has begun.
func (p *pushing) isInLine(ctx context.Context, intent *pushIntent) bool {
	for {
		missing, begun := 0, false
		for _, address := range intent.addresses {
			list, err := runGit(ctx, p.dir, "ls-remote", "--refs", "--", address)
			if err != nil {
				return false
			}
			there := map[string]string{}
			for line := range strings.Lines(list) {
				object, ref, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
				there[ref] = object
			}
			for ref, object := range intent.refs {
				if there[ref] != object {
					missing++
				} else if object == "" {
					begun = true
				}
			}
		}
		if missing == 0 || !begun {
			return missing == 0
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// process is git push with arguments, and more options.
func (p *pushing) process(ctx context.Context, args []string, more ...string) *exec.Cmd {
	git := gitProcess(ctx, p.dir, slices.Concat(p.helper.settings, []string{"push"}, more, p.git, []string{"--"}, args)...)
	p.helper.use(git)
	return git
}

// pushIntent is what git says that it would push.
type pushIntent struct {
	repo      grasp.Repo
	addresses []string // of the repository
	relays    []string
	refs      map[string]string // objects by name as they are after it; "" for those that go
	sources   map[string]string // by name: what is pushed there
	moves     bool              // anything has to be pushed
}

// apply brings refs to where they are after the push.
func (i *pushIntent) apply(refs map[string]string) {
	for ref, object := range i.refs {
		if object == "" {
			delete(refs, ref)
		} else {
			refs[ref] = object
		}
	}
}

// removes reports whether refs go.
func (i *pushIntent) removes() bool {
	for _, object := range i.refs {
		if object == "" {
			return true
		}
	}
	return false
}

// ask asks git what it would push, and runs its hook pre-push.
func (p *pushing) ask(ctx context.Context, args []string) (*pushIntent, error) {
	git := p.process(ctx, args, "--dry-run", "--porcelain")
	out, errOut := &bounded{max: refsBytes}, &bounded{max: 64 << 10}
	git.Stdout, git.Stderr = out, errOut
	err := git.Run()
	said := strings.TrimSpace(errOut.kept.String())
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return nil, errNoGit
	case err != nil:
		if format, err := runGit(ctx, p.dir, "rev-parse", "--show-object-format"); err == nil && strings.TrimSpace(format) != "sha1" {
			said += "\nThe repository has other object names than SHA-1. A server knows that from the first state: sign one with talon event state, then git push"
		}
		return nil, fmt.Errorf("git would not push this, so nothing was signed:\n%s", plainLines(refused(out.kept.String())+said))
	case out.over:
		return nil, errors.New("git would push more refs than an event can hold")
	}
	intent, err := parsePush(out.kept.String())
	if err != nil {
		return nil, err
	}
	if len(intent.refs)+len(intent.sources) == 0 {
		return nil, fmt.Errorf("git would push nothing\n%s", plainLines(said))
	}
	var refs, names []string
	for ref, from := range intent.sources {
		refs, names = append(refs, ref), append(names, from)
	}
	if len(names) == 0 {
		return intent, nil
	}
	objects, err := readObjects(ctx, p.dir, names)
	if err != nil {
		return nil, err
	}
	for i, ref := range refs {
		intent.refs[ref] = objects[i]
	}
	return intent, nil
}

// refused returns the lines of git push --porcelain about what it would not push.
func refused(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "!\t") {
			b.WriteString(strings.ReplaceAll(line, "\t", " "))
		}
	}
	return b.String()
}

// parsePush reads what git push --dry-run --porcelain prints: a line "To URL" for each
// remote, and below it one for each ref, FLAG TAB FROM:TO TAB SUMMARY.
func parsePush(out string) (*pushIntent, error) {
	i := &pushIntent{refs: map[string]string{}, sources: map[string]string{}}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if address, ok := strings.CutPrefix(line, "To "); ok {
			if err := i.remote(address); err != nil {
				return nil, err
			}
			continue
		}
		flag, rest, ok := strings.Cut(line, "\t")
		names, _, _ := strings.Cut(rest, "\t")
		colon := strings.LastIndexByte(names, ':')
		if !ok || colon < 0 {
			continue // "Done", or what a hook says
		}
		from, to := names[:colon], names[colon+1:]
		i.moves = i.moves || flag != "="
		switch {
		case !strings.HasPrefix(to, "refs/heads/") && !strings.HasPrefix(to, "refs/tags/"):
			return nil, fmt.Errorf("a state says nothing of %q: push it with git push", to)
		case flag == "!":
			return nil, fmt.Errorf("git would not push %s, so nothing was signed: %s", plain(to), plain(rest))
		case flag == "-" || from == "":
			i.refs[to] = ""
		default:
			i.sources[to] = from
		}
	}
	return i, nil
}

// remote notes a repository that is pushed to. All of one push are the same repository.
func (i *pushIntent) remote(address string) error {
	wrong := fmt.Errorf("%s is no repository of a GRASP server, which has a URL like https://HOST/npub1…/IDENTIFIER.git", plain(address))
	u, err := url.Parse(address)
	if err != nil {
		return wrong
	}
	scheme, ok := map[string]string{"http": "ws", "https": "wss"}[u.Scheme]
	path, err := grasp.ParsePath(strings.TrimSuffix(u.EscapedPath(), "/"))
	if !ok || err != nil || path.Rest != "" {
		return wrong
	}
	if path.PRs {
		return fmt.Errorf("%s takes the commits of pull requests, which need no state: push them with git push", plain(address))
	}
	if len(i.relays) > 0 && path.Repo != i.repo {
		return fmt.Errorf("the remote has the URLs of different repositories, %s among them: push to one of them", plain(address))
	}
	i.repo = path.Repo
	i.addresses = append(i.addresses, address)
	i.relays = append(i.relays, scheme+"://"+u.Host)
	return nil
}
