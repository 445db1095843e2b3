package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/exec"
	"slices"
	"strings"

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
	hooked bool // the hook was asked
}

// gitPushFlags are the options that go to git push as they are.
var gitPushFlags = []struct{ name, short, usage string }{
	{"all", "", "push all branches"},
	{"tags", "", "push all tags, too"},
	{"follow-tags", "", "also push the annotated tags of pushed commits"},
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
	f.StringVar(&what.head, "head", "", "the `branch` for HEAD, which clones check out (default: HEAD stays)")
	f.StringArrayVar(&what.relays, "relay", nil, "send the state to the relay at this `url`, too; may be repeated")
	f.BoolVarP(&what.dryRun, "dry-run", "n", false, "show the state and the refs, and do not sign or push")
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

// ask asks git what it would push, and runs its hook pre-push the first time.
func (p *pushing) ask(ctx context.Context, args []string) (*pushIntent, error) {
	options := []string{"--dry-run", "--porcelain"}
	if p.hooked {
		options = append(options, "--no-verify")
	}
	p.hooked = true
	git := p.process(ctx, args, options...)
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
		case strings.HasPrefix(to, "refs/nostr/"):
			return nil, fmt.Errorf("%q needs no state: push it with git push", to)
		case !isStateRef(to):
			return nil, fmt.Errorf("a repository of a GRASP server has branches and tags, and %q is neither: leave it out of the push", to)
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
	escaped := strings.TrimSuffix(u.EscapedPath(), "/")
	if !strings.HasSuffix(escaped, ".git") {
		escaped += ".git" // servers take both
	}
	path, err := grasp.ParsePath(escaped)
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
