// Command attack plays the attacks of package attack against a talon binary, one after the other,
// and says which of them honest people notice. make attack runs it.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"talon/cmd/internal/attack"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == "play" {
		if err := attack.Play(os.Args[2], os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(2)
		}
		return
	}
	ok, err := run()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

func run() (ok bool, err error) {
	only := flag.String("only", "", "names of the attacks to run, with commas between them; empty means all")
	seconds := flag.Int("seconds", 30, "length of each attack")
	alone := flag.Int("alone", 0, "length of the phase before each attack; 0 makes all of these together three times as long as one attack, and none longer than it")
	runs := flag.Int("runs", 1, "how often each attack runs, each time against a new server; its runs are judged together")
	count := flag.Int("count", 0, "size of each attack in its own unit; 0 means that of the list")
	program := flag.String("server", "bin/talon", "the talon binary")
	flags := flag.String("flags", "", "further flags of talon serve, separated by spaces; {maintainer} is the key of the honest maintainer")
	report := flag.String("json", "", "file for the results in JSON")
	dir := flag.String("dir", os.TempDir(), "folder for data; an attack may need 2 GB there")
	list := flag.Bool("list", false, "list the attacks, and run none")
	flag.Parse()
	if flag.NArg() > 0 {
		return false, fmt.Errorf("unexpected argument %q: name attacks with --only", flag.Arg(0))
	}
	attacks, err := selected(*only)
	if err != nil {
		return false, err
	}
	if *list {
		for _, a := range attacks {
			fmt.Printf("%-22s %s (%d %s)\n", a.Name, a.Text, a.Count, a.Unit)
		}
		return true, nil
	}
	once := attacks
	for range *runs - 1 {
		attacks = append(attacks, once...)
	}
	if *alone == 0 {
		*alone = max(1, min(*seconds, 3**seconds/len(attacks)))
	}
	o := attack.Options{
		Flags: strings.Fields(*flags), Alone: time.Duration(*alone) * time.Second, Phase: time.Duration(*seconds) * time.Second, Count: *count, Dir: *dir,
	}
	if o.Program, err = filepath.Abs(*program); err != nil {
		return false, err
	}
	if o.Self, err = os.Executable(); err != nil {
		return false, err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var results []*attack.Result
	var stopped error // after it, what was measured before is reported
	for i, a := range attacks {
		fmt.Fprintf(os.Stderr, "attack %d of %d: %s\n", i+1, len(attacks), a.Name)
		r, err := attack.Measure(ctx, a, o)
		if err != nil {
			stopped = fmt.Errorf("measure %s: %w", a.Name, err)
			break
		}
		results = append(results, r)
	}
	v := attack.Judge(results)
	for _, r := range results {
		r.Print(os.Stdout)
	}
	v.PrintTable(os.Stdout)
	if stopped != nil || *report == "" {
		return v.OK, stopped
	}
	text, err := json.MarshalIndent(v, "", "\t")
	if err != nil {
		return false, err
	}
	return v.OK, os.WriteFile(*report, append(text, '\n'), 0o644)
}

// selected returns the attacks with the given names.
func selected(names string) ([]attack.Attack, error) {
	all := attack.All()
	if names == "" {
		return all, nil
	}
	var list []attack.Attack
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, a := range all {
			if a.Name == name {
				list, found = append(list, a), true
			}
		}
		if !found {
			return nil, fmt.Errorf("there is no attack %q: attack --list lists them", name)
		}
	}
	return list, nil
}
