package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"talon/host"
	"talon/host/admin"
	"talon/host/config"
	"talon/host/daemon"
	"talon/sdk/nip19"
)

func usageCommand() *cobra.Command {
	by := usageBy(host.UsageByAuthor)
	limit := 50
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "List the authors, repositories and kinds that take most of the disk",
		Long: `List the authors, repositories and kinds that take most of the disk: authors, repositories or kinds, the largest first.

Events are counted when they are stored and removed, with the bytes of their JSON. An event counts for one repository: its own, or
the first that its a tags name. Git data counts for the repository through which it came, and for its owner.

It changes nothing, and works while the server runs and while it does not. --by address asks the running server: it lists from
where most bytes of events were accepted since midnight UTC.`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().Var(&by, "by", "`what` to list: author, repository, kind or address")
	cmd.Flags().IntVar(&limit, "limit", limit, "`number` of lines")
	jsonFlag(cmd, "write the list as JSON")
	return configured(cmd, config.Always|config.Operating, func(cmd *cobra.Command, cfg *config.Config, log *slog.Logger, _ []string) (err error) {
		if limit < 1 {
			return errors.New("the value of option limit is wrong: it must be positive")
		}
		if by == usageByAddress {
			return addressUsage(cmd, cfg, limit)
		}
		db, err := daemon.OpenStoreReadOnly(cmd.Context(), cfg, log)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, db.Close()) }()
		rows, err := db.LargestUsage(cmd.Context(), host.UsageClass(by), limit)
		if err != nil {
			return err
		}
		list := make([]usageLine, len(rows))
		for i, r := range rows {
			list[i] = usageLine{Name: usageName(r.UsageKey), Events: r.Events, Bytes: r.Bytes, Git: r.Git}
		}
		return printFound(cmd, list, func(w io.Writer) error { return writeUsage(w, by.String(), list) })
	})
}

// usageBy is the value of option --by.
type usageBy host.UsageClass

var usageClasses = map[usageBy]string{
	usageBy(host.UsageByAuthor): "author", usageBy(host.UsageByRepository): "repository", usageBy(host.UsageByKind): "kind",
	usageByAddress: "address",
}

// usageByAddress is no class of the store: the running server counts addresses.
const usageByAddress = usageBy(0)

// addressUsage lists the addresses that the running server has counted.
func addressUsage(cmd *cobra.Command, cfg *config.Config, limit int) error {
	server, err := runningServer(cfg)
	if err != nil {
		return err
	}
	list, err := server.Addresses(cmd.Context(), limit)
	switch {
	case errors.Is(err, admin.ErrNoServer):
		return noServer(err)
	case err != nil:
		return errors.New(plain(err.Error()))
	}
	return printFound(cmd, list, func(w io.Writer) error {
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(t, "bytes today\t  address")
		for _, a := range list {
			fmt.Fprintf(t, "%d\t  %s\n", a.Bytes, plain(a.Address))
		}
		return t.Flush()
	})
}

func (b usageBy) String() string { return usageClasses[b] }
func (usageBy) Type() string     { return "" }

func (b *usageBy) Set(s string) error {
	for class, name := range usageClasses {
		if s == name {
			*b = class
			return nil
		}
	}
	return errors.New("it is author, repository, kind or address")
}

// usageLine is a line of talon usage.
type usageLine struct {
	Name   string `json:"name"`
	Events int64  `json:"events"`
	Bytes  int64  `json:"bytes"`
	Git    int64  `json:"git"`
}

// usageName returns the npub of an author, npub/identifier of a repository, or the number of a kind.
func usageName(key host.UsageKey) string {
	switch key.Class {
	case host.UsageByAuthor:
		return nip19.EncodeNpub(key.PubKey())
	case host.UsageByRepository:
		return nip19.EncodeNpub(key.PubKey()) + "/" + key.Identifier()
	}
	return fmt.Sprint(key.Kind())
}

func writeUsage(w io.Writer, by string, list []usageLine) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "total\tevents\tof bytes\tgit bytes\t  "+by)
	for _, l := range list {
		fmt.Fprintf(t, "%d\t%d\t%d\t%d\t  %s\n", l.Bytes+l.Git, l.Events, l.Bytes, l.Git, plain(l.Name))
	}
	return t.Flush()
}
