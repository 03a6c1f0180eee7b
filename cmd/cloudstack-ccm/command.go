// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/wait"
	coordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/metrics/legacyregistry"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/controller"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/leader"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/ui/terminal/logs"
	"github.com/csccm/csccm/pkg/version"
)

// Defaults of the framework's flags that suit CloudStack better than the framework's own. Measured with 1,000 and 5,000
// Nodes on a real API server (docs/nodes.md): with the framework's 20 requests a second, some 18 nodes are initialised
// in a second; with these, some 75. The API server protects itself with its priority levels. A sync of a Service mostly
// waits for CloudStack, which the client's own rate limit protects.
const (
	concurrentServiceSyncs = 10
	concurrentNodeSyncs    = 20
	kubeAPIQPS             = 200
	kubeAPIBurst           = 400
)

// newCommand returns the command of the framework with upstream's defaults, its own flags and ours.
func newCommand(stop <-chan struct{}) (*cobra.Command, error) {
	noWebhooks := 0 // csccm has none; the framework would open a port and make a certificate for them
	o, err := options.NewCloudControllerManagerOptionsWithProviderDefaults(options.ProviderDefaults{
		WebhookBindPort: &noWebhooks,
	})
	if err != nil {
		return nil, fmt.Errorf("framework options: %w", err)
	}
	o.KubeCloudShared.CloudProvider.Name = provider.Name
	o.ServiceController.ConcurrentServiceSyncs = concurrentServiceSyncs
	o.NodeController.ConcurrentNodeSyncs = concurrentNodeSyncs
	o.Generic.ClientConnection.QPS, o.Generic.ClientConnection.Burst = kubeAPIQPS, kubeAPIBurst

	// Besides health checks, /configz is allowed without authentication. csccm doctor reads it through the API server,
	// which does not pass the user's identity on to a Pod.
	o.Authorization.AlwaysAllowPaths = append(o.Authorization.AlwaysAllowPaths, configz.DefaultConfigzPath)

	ours := provider.DefaultOptions()
	ours.RegisterMetrics = legacyregistry.RawMustRegister
	provider.Register(&ours)
	var sections cliflag.NamedFlagSets
	ours.AddFlags(sections.FlagSet("cloudstack"))
	test := sections.FlagSet("cloudstack").Bool("self-test", false,
		"Check with the cloud-config what the controller needs from CloudStack, and exit: the API answers here, "+
			"accepts the keys, allows each command, shows project, zone and VMs. Nothing is changed.")
	balancer := &lbTest{}
	balancer.add(sections.FlagSet("cloudstack"))

	c := &initializer{fence: leader.NewFence(clock.RealClock{}), stop: stop}
	ours.WriteGate = c.fence.Enter
	command := app.NewCloudControllerManagerCommand(o, c.cloud, controllers(), names.CCMControllerAliases(), sections,
		stop)
	c.flags = command.Flags()
	command.Use = "cloudstack-ccm"
	command.Long = "The cloud controller manager for clusters on Apache CloudStack: it initialises Nodes, follows " +
		"the life of their VMs\nand gives Services of type LoadBalancer their addresses."
	// Guest networks do not route Pod addresses, so the route controller has nothing to do. The framework sets its
	// default for this flag when it creates the flag, so it is changed here.
	if err := command.Flags().Set("configure-cloud-routes", "false"); err != nil {
		return nil, err
	}
	command.Flags().Lookup("configure-cloud-routes").DefValue = "false"

	framework := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if v := cmd.Flags().Lookup("version").Value.String(); v != strconv.FormatBool(false) {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
			return err
		}
		if balancer.serve != "" || len(balancer.ask) > 0 {
			return balancer.run(cmd.OutOrStdout(), stop)
		}

		logs.Escape(cmd.Flags(), os.Stderr) // until the framework sets up its own
		// Validate before the framework does: it would report an invalid cloud-config with a stack trace.
		if err := ours.Validate(); err != nil {
			return err
		}

		limitMemory()
		ours.ClusterName = o.KubeCloudShared.ClusterName
		ours.ConfigFile = o.KubeCloudShared.CloudProvider.CloudConfigFile
		if err := c.load(o.KubeCloudShared.CloudProvider.Name,
			o.KubeCloudShared.CloudProvider.CloudConfigFile); err != nil {
			return err
		}

		if *test {
			ctx, cancel := context.WithTimeout(cmd.Context(), testTime)
			defer cancel()
			return c.provider.SelfTest(ctx, cmd.OutOrStdout())
		}

		if err := framework(cmd, args); err != nil {
			return err
		}

		if c.unfenced != nil { // the framework only returns when it was told to stop
			ctx, cancel := context.WithTimeout(context.Background(), handOverTimeout)
			defer cancel()
			if err := c.fence.HandOver(ctx, coordinationv1.NewForConfigOrDie(c.unfenced)); err != nil {
				klog.ErrorS(err, "The lease is left to expire")
			}
		}

		return nil
	}

	return command, nil
}

// controllers returns the framework's controllers, with our own controller of Services in place of the framework's.
func controllers() map[string]app.ControllerInitFuncConstructor {
	out := maps.Clone(app.DefaultInitFuncConstructors)
	out[names.ServiceLBController] = app.ControllerInitFuncConstructor{
		Constructor: func(
			_ app.ControllerInitContext, c *config.CompletedConfig, cloud cloudprovider.Interface,
		) app.InitFunc {
			return func(
				ctx context.Context, _ genericcontrollermanager.ControllerContext,
			) (controller.Interface, bool, error) {
				p, ok := cloud.(*provider.Provider)
				if !ok {
					return nil, false, nil
				}
				return nil, true, p.StartServices(ctx, c.SharedInformers,
					int(c.ComponentConfig.ServiceController.ConcurrentServiceSyncs))
			}
		},
	}

	return out
}

// handOverTimeout is how long calls in progress may take when the process is told to stop. The longest are calls of
// CloudStack that wait for a lock. It must fit into the Pod's grace period of 30 s.
const handOverTimeout = 20 * time.Second

// initializer passes the provider to the framework, and the writes of both through the fence.
type initializer struct {
	provider *provider.Provider
	fence    *leader.Fence
	stop     <-chan struct{}
	flags    *pflag.FlagSet
	unfenced *rest.Config // nil without an election
}

// cloud is called by the framework after the flags are parsed and before the clients of the controllers are created.
func (i *initializer) cloud(c *config.CompletedConfig) cloudprovider.Interface {
	logs.Escape(i.flags, os.Stderr)
	if e := c.ComponentConfig.Generic.LeaderElection; e.LeaderElect {
		i.unfenced = rest.CopyConfig(c.Kubeconfig)
		i.fence.Guard(leader.Lease{
			Namespace: e.ResourceNamespace,
			Name:      e.ResourceName,
			Duration:  e.LeaseDuration.Duration,
		})
	}
	c.Kubeconfig.Wrap(i.fence.Wrap)
	go i.provider.FollowConfig(wait.ContextForChannel(i.stop))
	return i.provider
}

// load creates the provider. It reports invalid flags and an invalid file in an error of one line.
func (i *initializer) load(name, file string) error {
	if file == "" {
		return errors.New("no cloud-config: give its file with --cloud-config")
	}
	text, err := os.ReadFile(file) // #nosec G304 -- the operator names it
	if err != nil {
		return fmt.Errorf("cloud-config: %w", err)
	}
	loaded, err := cloudprovider.GetCloudProvider(name, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	var ours bool
	if i.provider, ours = loaded.(*provider.Provider); !ours {
		return fmt.Errorf("--cloud-provider=%s is not known: want %s", name, provider.Name)
	}
	return publish(i.provider)
}
