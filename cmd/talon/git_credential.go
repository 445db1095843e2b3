package main

import (
	"bufio"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"talon/host"
)

const (
	// authPath begins the paths of repositories that are not for everybody.
	authPath = "/auth/"

	// credentialTime is how long a server takes a password that is one signed event.
	credentialTime = 10 * time.Minute

	// maxCredentialLine bounds a line that git sends, and maxCredentialLines how many there are.
	maxCredentialLine  = 64 << 10
	maxCredentialLines = 100

	kindHTTPAuth host.Kind = 27235 // NIP-98
)

func gitCredentialCommand() *cobra.Command {
	var who signing
	cmd := &cobra.Command{
		Use:   "git-credential get|store|erase|link URL",
		Short: "Sign in to private repositories, as a credential helper of git",
		Long: `Answer git when it asks for a password for a repository below /auth/ of a GRASP server.

The password is an event that your key signs (NIP-98). It is for one repository, and counts for 10 minutes. Nothing is stored.
Git calls this command after:

  git config --global credential.https://git.example.com.helper '!talon git-credential --key ~/me.key'
  git config --global credential.https://git.example.com.useHttpPath true

For other paths of the server it says nothing, and git goes on as without it.

With link it prints a link by which a browser signs in to the page at URL, once, in the next 10 minutes.`,
		Example: `  git clone https://git.example.com/auth/npub1…/my-demo.git
  printf 'protocol=https\nhost=git.example.com\npath=auth/npub1…/my-demo.git\n\n' | talon git-credential get --key ~/me.key
  talon git-credential link --key ~/me.key https://git.example.com/auth/npub1…/my-demo`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case args[0] == "link" && len(args) == 2:
				return signInLink(cmd.OutOrStdout(), args[1], &who)
			case args[0] == "link":
				return errors.New("link needs the URL of a page below /auth/")
			case args[0] == "get":
				return credential(cmd.InOrStdin(), cmd.OutOrStdout(), &who)
			}
			return nil // git's manual: a helper ignores operations that it does not know
		},
	}
	who.keyFlags(cmd)
	return cmd
}

// credential answers one question of git.
func credential(in io.Reader, out io.Writer, who *signing) error {
	about, err := readCredential(in)
	if err != nil {
		return err
	}
	at, err := credentialURL(about)
	if err != nil || at == "" {
		return err
	}
	e, err := authorization(who, at, "GET")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "username=nostr\npassword=%s\npassword_expiry_utc=%d\n",
		base64.StdEncoding.EncodeToString(e.JSON), time.Unix(e.CreatedAt, 0).Add(credentialTime-time.Minute).Unix())
	return err
}

// authorization signs a request for a URL (NIP-98).
func authorization(who *signing, at, method string) (*host.Event, error) {
	key, err := who.open()
	if err != nil {
		return nil, err
	}
	defer key.close()
	e := &host.Event{Kind: kindHTTPAuth, CreatedAt: time.Now().Unix(), Tags: host.Tags{{"u", at}, {"method", method}}}
	return e, key.sign(e)
}

// signInLink prints a link to a page that signs in the browser that opens it. A browser does not send
// the part behind # to any server.
func signInLink(out io.Writer, page string, who *signing) error {
	u, err := url.Parse(page)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || !strings.HasPrefix(u.Path, authPath) {
		return fmt.Errorf("a browser cannot sign in at %q: want the http or https URL of a page below %s", page, authPath)
	}
	e, err := authorization(who, u.Scheme+"://"+u.Host+authPath, "POST")
	if err != nil {
		return err
	}
	u.Fragment = ""
	_, err = fmt.Fprintln(out, u.String()+"#signin="+base64.RawURLEncoding.EncodeToString(e.JSON))
	return err
}

// readCredential reads what git says of the server that asks for a password.
func readCredential(in io.Reader) (map[string]string, error) {
	about := make(map[string]string)
	lines := bufio.NewScanner(io.LimitReader(in, maxCredentialLine*maxCredentialLines))
	lines.Buffer(nil, maxCredentialLine)
	for lines.Scan() && lines.Text() != "" {
		name, value, ok := strings.Cut(lines.Text(), "=")
		if !ok {
			return nil, fmt.Errorf("git's description of the credential has a line %.40q, which is not NAME=VALUE", lines.Text())
		}
		about[name] = value
	}
	return about, lines.Err()
}

var errNoCredentialPath = errors.New("git does not say for which repository: set credential.https://HOST.useHttpPath to true")

// credentialURL returns the URL of the repository that the password is for, "" if it is none of those
// that ask for a signed event.
func credentialURL(about map[string]string) (string, error) {
	if about["protocol"] != "https" && about["protocol"] != "http" {
		return "", nil
	}
	if about["path"] == "" {
		return "", errNoCredentialPath
	}
	path := "/" + strings.TrimPrefix(about["path"], "/")
	if !strings.HasPrefix(path, authPath) {
		return "", nil
	}
	// Git names the repository as its user did: with or without a slash behind it.
	path, _, _ = strings.Cut(path, ".git/")
	path = strings.TrimSuffix(strings.TrimSuffix(path, "/"), ".git") + ".git"
	u, err := url.Parse(about["protocol"] + "://" + about["host"])
	if err != nil || u.Host == "" || u.Path != "" || u.User != nil {
		return "", fmt.Errorf("git names the host %.100q, which is none", about["host"])
	}
	return u.String() + (&url.URL{Path: path}).EscapedPath(), nil
}
