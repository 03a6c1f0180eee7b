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

A CloudStack user has one pair of keys, and a new pair revokes the old one at once. So
the new pair belongs to a second user of the same account. csccm revokes the old pair
when the controller works with the new one, and puts it back if the controller fails.

Others may use the keys: a CSI driver, an autoscaler. csccm shows what reads the
Secret or holds a copy, and keeps the old pair while something may still work with it.
--restart-others restarts what csccm can restart. --finish revokes the old pair later.`,
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
