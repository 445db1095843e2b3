package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host/githttp"
	"talon/host/gitrepo"
)

func gitCommand() *cobra.Command {
	return onlyHelps(&cobra.Command{
		Use:   "git",
		Short: "Serve git repositories without a relay",
	}, gitServeCommand())
}

// gitServe are the options of talon git serve.
type gitServe struct {
	listen, prefix string
	push, public   bool
	plain          bool
}

func gitServeCommand() *cobra.Command {
	var o gitServe
	cmd := &cobra.Command{
		Use:   "serve DIR",
		Short: "Serve a folder of repositories over HTTP",
		Long: `Serve a folder of repositories over git's smart HTTP protocol until SIGINT or SIGTERM.

DIR may have folders in any depth; DIR/a/b.git is at PREFIX/a/b.git and PREFIX/a/b. There are no rules of GRASP here: whoever
reaches the address can read every repository, and with --push change the branches and tags of all of them. It is for tests.

With --plain git does everything itself, as behind git http-backend: each repository's own configuration says what is shown and taken,
refs of any name, shallow and signed pushes too, DIR/x may have a work tree, and nothing that is pushed is checked unless that
configuration says so. Of the environment it has GIT_COMMITTER_NAME, GIT_COMMITTER_EMAIL, GIT_NAMESPACE and GNUPGHOME; neither your
configuration nor the machine's is read, no hook runs, and repositories of other users are not served. Plain mode trusts everybody who can reach it: with --push they may do
whatever git lets a user do who pushes. Put a web server before it that knows who they are.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			return o.run(cmd.Context(), args[0], log)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.listen, "listen", "127.0.0.1:7335", "`address` and port; port 0 takes a free one")
	flags.StringVar(&o.prefix, "prefix", "/", "`path` below which the repositories are")
	flags.BoolVar(&o.push, "push", false, "let everybody push")
	flags.BoolVar(&o.plain, "plain", false, "leave pushes and fetches to git and each repository's configuration; trusts every client")
	flags.BoolVar(&o.public, "public", false, "allow an address that other machines reach")
	return cmd
}

func (o *gitServe) run(ctx context.Context, dir string, log *slog.Logger) error {
	if err := o.checkAddress(); err != nil {
		return err
	}
	prefix := "/" + strings.Trim(o.prefix, "/") + "/"
	if prefix == "//" {
		prefix = "/"
	}
	git, err := gitrepo.Find(ctx, "git", gitrepo.DefaultOptions)
	if err != nil {
		return err
	}
	if o.plain {
		git = git.Plain()
	}
	folder, err := gitrepo.OpenFolder(git, dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	var pushes githttp.Pushes
	if o.push {
		pushes = anyPush{}
	}
	handler, err := githttp.New(githttp.Config{
		Prefix: prefix, Limits: githttp.DefaultLimits, Log: log, Plain: o.plain, Scheduler: git.Scheduler(),
	}, openFolder{folder}, pushes)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return fmt.Errorf("listen on %s (option listen): %w", o.listen, err)
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	log.Info("serving", "addr", "http://"+l.Addr().String()+prefix, "dir", dir, "push", o.push, "plain", o.plain)
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		// Requests that are under way may end; then they are cut off.
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		if server.Shutdown(closing) != nil {
			stopped <- server.Close()
			return
		}
		stopped <- nil
	})
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return <-stopped
}

// checkAddress makes sure that nobody opens a folder to the world by mistake.
func (o *gitServe) checkAddress() error {
	name, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return fmt.Errorf("the value of option listen is wrong: %w", err)
	}
	if ip := net.ParseIP(name); o.public || name == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("other machines could reach %s: listen on 127.0.0.1, or allow it with --public", o.listen)
}

// openFolder finds every repository of a folder.
type openFolder struct{ folder *gitrepo.Folder }

func (f openFolder) Find(_ context.Context, parts []string, _ githttp.Use) (*gitrepo.Repo, error) {
	return f.folder.Find(parts)
}

// anyPush allows every push of branches, tags and refs/nostr.
type anyPush struct{}

func (anyPush) Authorize(_ context.Context, p *githttp.Push) error {
	for _, u := range p.Updates {
		if !gitrepo.IsPushable(u.Ref) {
			return &githttp.Refusal{Reason: "only branches, tags and refs/nostr/<event id> can be pushed here"}
		}
	}
	p.Author = githttp.OwnerOf(p.Repo)
	return nil
}

func (anyPush) Confirm(context.Context, *githttp.Push) error { return nil }

func (anyPush) PushDone(context.Context, *githttp.Push) {}
