// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/csccm/csccm/cmd/csccm/internal/cli"
	"github.com/csccm/csccm/installer/commands/rotate"
	"github.com/csccm/csccm/installer/engine"
	"github.com/csccm/csccm/installer/engine/report"
	"github.com/csccm/csccm/pkg/provider"
)

func newRotateKeysCommand(g *cli.Globals) *cobra.Command {
	admin, o := &installFlags{}, rotate.Options{}
	cmd := g.Command(&cobra.Command{
		Use:   "rotate-keys",
		Short: "Replace the controller's API keys without interruption",
		Long: `Replace the API keys that the controller works with.

A CloudStack user has one pair of keys, and a new pair kills the old one at once. So
the new pair is that of a second user of the same account. It is proven call by call
and written to the Secret; when the controller works with it, and not before, the old
pair is made worthless. If the controller refuses the new pair, the old one comes
back. The next rotation takes the first user again.

The controller takes changed keys over while it works; one that does not is
restarted, one Pod at a time.

Others may use the keys: a CSI driver, an autoscaler. csccm shows the Pods that read
the Secret, and other Secrets with a copy of the keys. --restart-others restarts the
Deployments, DaemonSets and StatefulSets among them, and looks for calls that
CloudStack refuses. While something may still work with the old pair, or csccm may
not look, the old pair stays. End it later:

  csccm rotate-keys --finish

shows what would stop working, and refuses to break it (without --force).`,
		Example: `  csccm rotate-keys --admin-user admin --admin-password-file password --yes
  csccm rotate-keys --admin-cmk-profile current --dry-run
  csccm rotate-keys --restart-others   # who reads the Secret only at startup
  csccm rotate-keys --finish           # end the old pair that was kept`,
	}, cli.Changing|cli.FlagRollout, func(ctx context.Context, _ []string) error {
		if o.Force && !o.Finish {
			return report.Usage("--force is only for --finish", "add --finish, or leave --force out")
		}
		if o.Finish && (o.KeepOld || o.Restart || o.User != "") {
			return report.Usage("--finish makes no new keys: --keep-old, --restart and --user have no meaning with it", "leave them out")
		}
		if err := admin.readSecrets(g); err != nil {
			return err
		}
		return g.OnRelease(ctx, func(e *engine.Env) error {
			o.Required, o.Optional = provider.RequiredCommands, provider.OptionalCommands
			o.Admin = admin.login(e)
			return rotate.Run(ctx, e, o)
		})
	})
	g.DefaultTimeout(cmd, 30*time.Minute, g.Interactive) // two rollouts, and a person who thinks
	admin.addAdmin(cmd)
	flags := cmd.Flags()
	flags.StringVar(&o.User, "user", "", "name of the user with the new keys (default chosen)")
	flags.BoolVar(&o.KeepOld, "keep-old", false, "leave the old keys as they are")
	flags.BoolVar(&o.RestartOthers, "restart-others", false, "restart other workloads that read the Secret and may not take changed keys over")
	flags.BoolVar(&o.Finish, "finish", false, "only end old keys that rotations have kept")
	flags.BoolVar(&o.Force, "force", false, "with --finish: also where something still uses the old keys")
	flags.DurationVar(&o.Observe, "observe", rotate.DefaultObserve, "how long other workloads must work without a call that CloudStack refuses")
	flags.BoolVar(&o.Restart, "restart", false, "restart the Pods instead of waiting until they take the keys over")
	flags.DurationVar(&o.ReloadTimeout, "reload-timeout", rotate.DefaultReloadTimeout, "how long the Pods may take to take the keys over before they are restarted")
	cli.CompleteFlag(cmd, "user", cobra.NoFileCompletions)
	return cmd
}
