// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/check"
	"github.com/csccm/csccm/installer/cloud/access"
	"github.com/csccm/csccm/installer/cloud/credentials"
	"github.com/csccm/csccm/installer/commands/install"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/taint"
)

// onceOnly are flags that the command line for repeating an install omits. The flags of the connection are added to
// that line separately.
var onceOnly = []string{"release", "dry-run", "force-unlock", "from-predecessor", "journal", "overwrite-secret"}

// installFlags are the flags of install as typed.
type installFlags struct {
	install.Config
	charts chartFlags
}

// readSecrets reads passwords and keys from files, stdin and the environment. It writes its warnings to stderr.
func (f *installFlags) readSecrets(g *cli.Globals) error {
	return f.Read(g.In, g.ErrOut, g.Getenv, g.Interactive())
}

func newInstallCommand(g *cli.Globals) *cobra.Command {
	f := &installFlags{}
	var cmd *cobra.Command
	cmd = g.Command(&cobra.Command{
		Use:   "install",
		Short: "Install the controller, or replace another one",
	}, cli.Changing|cli.FlagRollout|cli.FlagUnlock,
		func(ctx context.Context, _ []string) error { return f.run(ctx, g, cmd) })
	g.DefaultTimeout(cmd, 0, g.Interactive) // no limit while a person answers; each wait has its own
	f.add(cmd)
	cli.Advanced(cmd, "admin-api-key-file admin-secret-key-file admin-domain allow-http chart cluster-id "+
		"controller-user create-account domain force-unlock journal max-parallel node-timeout "+
		"overwrite-secret plain-http region release role-name rollout-timeout set-string "+
		"skip-self-test ssl-no-verify version")
	addConsent(cmd, &f.Accept, &f.Pin, &f.Adopt)
	return cmd
}

// setting is a flag for a key of the cloud-config. It takes effect only if it is given on the command line.
type setting struct {
	to        *access.Settings
	key, kind string
}

func (s setting) String() string {
	if s.to == nil { // pflag calls String on a zero value
		return ""
	}
	return (*s.to)[s.key]
}

func (s setting) Type() string { return s.kind }

// Set implements pflag.Value.
func (s setting) Set(value string) error {
	if s.kind == "bool" {
		on, err := strconv.ParseBool(value)
		if err != nil {
			return err
		}
		value = strconv.FormatBool(on)
	}
	if *s.to == nil {
		*s.to = access.Settings{}
	}
	(*s.to)[s.key] = value
	return nil
}

func (f *installFlags) setting(flags *pflag.FlagSet, name, key, kind, usage string) *pflag.Flag {
	return flags.VarPF(setting{&f.Flags, key, kind}, name, "", usage)
}

// addAdmin adds the flags for the login of an administrator, or of a user where that is enough.
func (f *installFlags) addAdmin(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.AdminUser, "admin-user", "", "user for the login; an administrator if the command needs one")
	flags.StringVar(&f.AdminDomain, "admin-domain", "",
		"path of that user's domain, for example ROOT/k8s (default ROOT)")
	flags.StringVar(&f.AdminPasswordFile, "admin-password-file", "",
		"file with the password of --admin-user (or CSCCM_ADMIN_PASSWORD)")
	flags.BoolVar(&f.AdminPasswordStdin, "admin-password-stdin", false, "read the password of --admin-user from stdin")
	flags.StringVar(&f.AdminAPIKeyFile, "admin-api-key-file", "",
		"file with an administrator's API key, instead of a login")
	flags.StringVar(&f.AdminSecretKeyFile, "admin-secret-key-file", "", "file with an administrator's secret key")
	flags.BoolVar(&f.AllowHTTP, "allow-http", false,
		"send the administrator's login to an http:// URL of another machine, unencrypted")
}

// addKeys adds the flags for the API's URL and for existing keys.
func (f *installFlags) addKeys(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.setting(flags, "api-url", "api-url", "string",
		"URL of the CloudStack API, which Pods reach too (usually ends in /client/api)")
	f.setting(flags, "ca-file", "ca-file", "string", "PEM file with the CA of the API's certificate")
	f.setting(flags, "ssl-no-verify", "ssl-no-verify", "bool",
		"trust any certificate of the API (not recommended)").NoOptDefVal = "true"
	flags.StringVar(&f.APIKeyFile, "api-key-file", "", "file with an API key (or CLOUDSTACK_API_KEY)")
	flags.StringVar(&f.SecretKeyFile, "secret-key-file", "", "file with its secret key (or CLOUDSTACK_SECRET_KEY)")
	flags.StringVar(&f.CloudConfig, "cloud-config", "", "cloud-config file with URL and keys")
}

func (f *installFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.addKeys(cmd)
	f.addAdmin(cmd)
	flags.StringVar(&f.Account, "account", "",
		"account that owns the cluster's VMs; the controller's user is created there")
	flags.StringVar(&f.Domain, "domain", "",
		"path or id of the account's domain (default the administrator's own, ROOT for a root administrator)")
	flags.BoolVar(&f.CreateAccount, "create-account", false, "with --project: create the account if it does not exist")
	flags.StringVar(&f.User, "controller-user", "",
		"name of the controller's user (default kubeadmin, with a number if that is taken)")
	flags.StringVar(&f.Role, "role-name", "",
		"name of the minimal role for a new account (default "+credentials.DefaultRole+")")

	flags.BoolVar(&f.FromPredecessor, "from-predecessor", false, "use the keys of the provider that is replaced")
	flags.BoolVar(&f.OverwriteSecret, "overwrite-secret", false, "replace the credentials that are in the cluster")

	f.setting(flags, "project", "project-id", "string", "project that owns the cluster's VMs (name or id)")
	f.setting(flags, "zone", "zone", "string", "name or id of the zone (default any)")
	f.setting(flags, "region", "region", "string", "value of the nodes' region label (default the zone's name)")
	f.setting(flags, "cluster-id", "cluster-id", "string", "name of this cluster in tags of CloudStack resources")

	f.charts.add(flags)

	flags.StringSliceVar(&f.SkipChecks, "skip-check", nil,
		"code of a check to leave out, for example NODE-001; may be repeated")
	flags.BoolVar(&f.SkipSelfTest, "skip-self-test", false, "do not run the controller's self-test in the cluster")
	flags.BoolVar(&f.SkipTaint, "skip-taint", false, "leave existing nodes as they are")
	addLimitFlags(flags, &f.Limits)
	cli.CompleteFlag(cmd, "skip-check", cli.OneOf(checkCodes()...))
}

// run reads files, environment and stdin, checks what needs no connection, and installs.
func (f *installFlags) run(ctx context.Context, g *cli.Globals, cmd *cobra.Command) (err error) {
	if err := checkLimits(&f.Limits); err != nil {
		return err
	}
	if err := (check.Selection{Skip: f.SkipChecks}).Validate(); err != nil {
		return cli.Usagef("--skip-check: %w", err)
	}
	if err := consent(f.Adopt, f.Accept, f.Pin); err != nil {
		return err
	}
	if err := f.readSecrets(g); err != nil {
		return err
	}

	f.Typed = cli.Typed(cmd.LocalFlags(), onceOnly...)
	if f.Chart, f.Values, err = f.charts.load(ctx); err != nil {
		return err
	}
	return g.OnRelease(ctx, func(e *engine.Env) error { return install.Run(ctx, e, f.Config) })
}

// addLimitFlags adds the flags that limit how fast existing nodes are initialised; checkLimits validates them.
func addLimitFlags(flags *pflag.FlagSet, p *taint.Limits) {
	flags.IntVar(&p.MaxParallel, "max-parallel", 1, "existing nodes to initialise at a time, after the first")
	flags.DurationVar(&p.PerNode, "node-timeout", taint.DefaultPerNode, "how long the controller may take for a node")
}

func checkLimits(p *taint.Limits) error {
	if p.MaxParallel < 1 {
		return cli.Usagef("--max-parallel %d must be 1 or more", p.MaxParallel)
	}
	return cli.Positive("--node-timeout", p.PerNode)
}
