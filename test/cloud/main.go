// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cloud tests csccm on a CloudStack. It creates its own domain, networks and VMs there, installs csccm in real
// clusters of process nodes, runs scenarios, and removes everything. Without a URL it uses the simulator.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/csccm/csccm/test/cloud/suite"
	"github.com/csccm/csccm/test/cloud/world"
	"github.com/csccm/csccm/test/internal/must"
	"github.com/csccm/csccm/test/plane"
	"github.com/csccm/csccm/test/testenv"
)

// The exit codes.
const (
	exitOK          = 0
	exitFailure     = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	code := run(ctx, stop, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// settings are the flags.
type settings struct {
	suite.Options
	only     []string
	third    int
	list     bool
	clean    bool
	cleanRun string
	out      string
}

// run runs the program. It calls interrupted when from then on another ^C must end the program at once.
func run(
	ctx context.Context, interrupted func(), args []string, getenv func(string) string, stdout, stderr io.Writer,
) int {
	s, err := parse(args, getenv, stderr)
	var names []string
	if err == nil {
		names, err = suite.Select(s.only, s.third)
	}

	usage := err != nil
	switch {
	case usage:
	case s.list:
		_, _ = fmt.Fprintln(stdout, strings.Join(suite.Names(), "\n"))
	case s.clean:
		err = suite.Clean(ctx, s.Options, s.cleanRun)
	default:
		err = s.scenarios(ctx, interrupted, names, stdout)
	}

	if err != nil && !errors.Is(err, flag.ErrHelp) {
		_, _ = fmt.Fprintln(stderr, "cloud:", err)
	}

	switch {
	case ctx.Err() != nil:
		return exitInterrupted
	case err == nil || errors.Is(err, flag.ErrHelp):
		return exitOK
	case usage:
		return exitUsage
	}

	return exitFailure
}

// scenarios builds the programs, runs the scenarios, cleans up and reports.
func (s *settings) scenarios(ctx context.Context, interrupted func(), names []string, stdout io.Writer) (err error) {
	defer must.Return(&err)
	s.Programs = must.Get(testenv.Build(ctx, s.Log))
	s.Plane = must.Get(plane.Ensure(ctx, plane.Newest, s.Log))
	r, err := suite.Start(ctx, s.Options)
	if err != nil {
		interrupted()
		_ = r.Stop(context.WithoutCancel(ctx)) // it has logged what is left
		return err
	}

	results := r.Scenarios(ctx, names)
	if ctx.Err() != nil {
		r.Say("interrupted; removing what was made (^C again leaves it: make cloud CLOUDFLAGS=--clean)")
		interrupted()
	}

	report := r.Report(results, r.Stop(context.WithoutCancel(ctx)))
	must.Get(io.WriteString(stdout, report.Markdown()))
	if s.out != "" && ctx.Err() == nil {
		must.OK(os.WriteFile(s.out, []byte(report.Markdown()), 0o644)) // #nosec G306 -- a page for people
	}

	must.Be(report.OK(), "the run has failed")
	return nil
}

// parse reads the flags and the environment variables that `make cloud` sets.
func parse(args []string, getenv func(string) string, stderr io.Writer) (*settings, error) {
	s := &settings{Options: suite.Options{Log: stderr}}
	f := flag.NewFlagSet("cloud", flag.ContinueOnError)
	f.SetOutput(stderr)
	env := func(name string) string { return getenv("CLOUD_" + name) }
	f.StringVar(&s.URL, "url", env("URL"), "URL of the CloudStack API; empty starts a simulator (CLOUD_URL)")
	f.StringVar(&s.Who.User, "admin-user", env("ADMIN_USER"), "root administrator (CLOUD_ADMIN_USER)")
	f.StringVar(&s.Who.Domain, "admin-domain", env("ADMIN_DOMAIN"),
		"domain of the administrator, ROOT when empty (CLOUD_ADMIN_DOMAIN)")
	passwordFile := f.String("admin-password-file", env("ADMIN_PASSWORD_FILE"),
		"file with the administrator's password (CLOUD_ADMIN_PASSWORD_FILE)")
	keyFile := f.String("api-key-file", env("API_KEY_FILE"),
		"file with an API key, of a root administrator or of a plain user (CLOUD_API_KEY_FILE)")
	secretFile := f.String("secret-key-file", env("SECRET_KEY_FILE"),
		"file with its secret key (CLOUD_SECRET_KEY_FILE)")
	f.StringVar(&s.CAFile, "ca-file", env("CA_FILE"), "PEM certificates that sign the API's (CLOUD_CA_FILE)")
	f.StringVar(&s.Zone, "zone", env("ZONE"), "name or id of the zone; empty: the first advanced one (CLOUD_ZONE)")
	f.StringVar(&s.Record, "record", env("RECORD"),
		"folder for answers whose shape is not recorded, without ids and secrets (CLOUD_RECORD)")
	f.StringVar(&s.Shapes, "write-shapes", "",
		"with the simulator: write the shapes that it gives beyond the recordings to this file "+
			"(test/cloud/shape/simulator.json)")
	only := f.String("only", getenv("ONLY"), "parts of the names of the scenarios to run, comma separated (ONLY)")
	f.IntVar(&s.third, "third", 0, "run only the first, second or third part of the scenarios: 1, 2 or 3")
	f.StringVar(&s.Version, "simulator-version", "",
		"release of CloudStack that a simulator plays, such as 4.19 (default: the newest)")
	f.StringVar(&s.Profile, "profile", "instant", "how long a simulator's calls take: instant, simulator or production")
	f.StringVar(&s.out, "out", env("OUT"), "write the table to this Markdown file (CLOUD_OUT)")
	f.StringVar(&s.JournalDir, "journal-dir", "", "folder of the journals (default ~/.local/state/csccm-cloud)")
	f.BoolVar(&s.Keep, "keep", false, "leave everything in the cloud at the end")
	f.BoolVar(&s.list, "list", false, "print the names of the scenarios and exit")
	f.BoolVar(&s.clean, "clean", false, "remove what runs have left, as their journals say, and exit")
	f.StringVar(&s.cleanRun, "run", "", "with --clean: remove what this run has left, or all (CLOUD_RUN)")
	if err := f.Parse(args); err != nil {
		return nil, err
	}

	if f.NArg() > 0 {
		return nil, fmt.Errorf("%q: there are flags only", f.Args())
	}

	s.only = strings.FieldsFunc(*only, func(r rune) bool { return r == ',' })
	if s.cleanRun == "" {
		s.cleanRun = env("RUN")
	}

	if s.cleanRun != "" && s.cleanRun != suite.AllRuns {
		if err := world.CheckRun(s.cleanRun); err != nil {
			return nil, fmt.Errorf("--run: %w", err)
		}
	}

	if s.JournalDir == "" {
		dir, err := world.JournalDir()
		if err != nil {
			return nil, err
		}
		s.JournalDir = dir
	}

	return s, s.credentials(*passwordFile, *keyFile, *secretFile)
}

// credentials reads the files and rejects invalid combinations of flags.
func (s *settings) credentials(passwordFile, keyFile, secretFile string) (err error) {
	defer must.Return(&err)
	read := func(path string) string {
		if path == "" {
			return ""
		}
		text := strings.TrimSpace(string(must.Get(os.ReadFile(path)))) // #nosec G304 -- the user names it
		must.Be(text != "", "%s is empty", path)
		return text
	}

	s.Who.Password, s.Who.APIKey, s.Who.SecretKey = read(passwordFile), read(keyFile), read(secretFile)
	login, keys := s.Who.User != "" && s.Who.Password != "", s.Who.APIKey != "" && s.Who.SecretKey != ""
	must.Be(s.URL != "" || !s.clean, "CLOUD_URL is missing: a simulator leaves nothing")
	must.Be(s.URL != "" || s.Who.User == "" && s.Who.APIKey == "", "credentials without CLOUD_URL")
	must.Be(s.URL == "" || login || keys,
		"CLOUD_URL needs CLOUD_ADMIN_USER and CLOUD_ADMIN_PASSWORD_FILE, or CLOUD_API_KEY_FILE and "+
			"CLOUD_SECRET_KEY_FILE")
	must.Be(!login || !keys, "a login and keys are both given; give one")
	return nil
}
