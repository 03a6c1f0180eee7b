// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/csccm/csccm/pkg/leader"
	"github.com/csccm/csccm/pkg/provider"
	"github.com/csccm/csccm/pkg/version"
)

// Defaults of the framework's flags that suit CloudStack better than the framework's own. Measured with 1,000
// and 5,000 Nodes on a real API server (docs/nodes.md): with the framework's 20 requests a second some 18 nodes
// are initialised in a second, with these some 75. The API server protects itself by its priority levels. A
// sync of a Service waits for CloudStack most of its time, and the client's own rate limit protects that.
const (
	concurrentServiceSyncs = 10
	concurrentNodeSyncs    = 20
	kubeAPIQPS             = 200
	kubeAPIBurst           = 400
)

// newCommand makes the command: the framework's with upstream's defaults, its flags and ours.
func newCommand(stop <-chan struct{}) (*cobra.Command, error) {
	noWebhooks := 0 // there are none; the framework would open a port and make a certificate for them
	o, err := options.NewCloudControllerManagerOptionsWithProviderDefaults(options.ProviderDefaults{WebhookBindPort: &noWebhooks})
	if err != nil {
		return nil, fmt.Errorf("framework options: %w", err)
	}
	o.KubeCloudShared.CloudProvider.Name = provider.Name
	o.ServiceController.ConcurrentServiceSyncs = concurrentServiceSyncs
	o.NodeController.ConcurrentNodeSyncs = concurrentNodeSyncs
	o.Generic.ClientConnection.QPS, o.Generic.ClientConnection.Burst = kubeAPIQPS, kubeAPIBurst

	ours := provider.DefaultOptions()
	ours.RegisterMetrics = legacyregistry.RawMustRegister
	provider.Register(&ours)
	var sections cliflag.NamedFlagSets
	ours.AddFlags(sections.FlagSet("cloudstack"))
	test := sections.FlagSet("cloudstack").Bool("self-test", false,
		"Prove with the cloud-config what the controller needs of CloudStack, and exit: the API answers here, takes the keys, allows each command, shows project, zone and VMs. Nothing is changed.")
	balancer := &lbTestFlags{}
	balancer.add(sections.FlagSet("cloudstack"))

	c := &initializer{fence: leader.NewFence(nil), stop: stop}
	ours.WriteGate = c.fence.Enter
	command := app.NewCloudControllerManagerCommand(o, c.cloud, app.DefaultInitFuncConstructors, names.CCMControllerAliases(), sections, stop)
	command.Use = "cloudstack-ccm"
	command.Long = "The cloud controller manager for clusters on Apache CloudStack: it initialises Nodes, follows the life of their VMs\n" +
		"and gives Services of type LoadBalancer their addresses."
	// Guest networks route no Pods, so there is nothing for the route controller to do. The framework
	// sets this default when it makes the flag.
	if err := setDefault(command, "configure-cloud-routes", "false"); err != nil {
		return nil, err
	}

	framework := command.RunE
	command.RunE = func(cmd *cobra.Command, args []string) error {
		if v := cmd.Flags().Lookup("version").Value.String(); v != strconv.FormatBool(false) {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version.String())
			return err
		}
		if balancer.asked() {
			return balancer.run(cmd.OutOrStdout(), stop)
		}
		// Ahead of the framework, which would answer a wrong cloud-config with a stack trace.
		if err := ours.Validate(); err != nil {
			return err
		}
		limitMemory()
		if *test {
			return selfTest(cmd.Context(), cmd.OutOrStdout(), o.KubeCloudShared.CloudProvider.CloudConfigFile, ours.CABundle)
		}
		ours.ClusterName = o.KubeCloudShared.ClusterName
		ours.ConfigFile = o.KubeCloudShared.CloudProvider.CloudConfigFile
		if err := c.load(o.KubeCloudShared.CloudProvider.Name, o.KubeCloudShared.CloudProvider.CloudConfigFile); err != nil {
			return err
		}
		if err := framework(cmd, args); err != nil {
			return err
		}
		c.handOver() // the framework only returns when it was told to stop
		return nil
	}
	return command, nil
}

func setDefault(cmd *cobra.Command, name, value string) error {
	f := cmd.Flags().Lookup(name)
	if f == nil {
		return fmt.Errorf("the framework has no flag --%s", name)
	}
	if err := f.Value.Set(value); err != nil {
		return fmt.Errorf("--%s: %w", name, err)
	}
	f.DefValue = value
	return nil
}

// load makes the provider; what is wrong with flags or file comes out as an error of one line.
func (i *initializer) load(name, file string) error {
	if name == "" {
		return fmt.Errorf("--cloud-provider is empty: want %s", provider.Name)
	}
	if !cloudprovider.IsCloudProvider(name) {
		return fmt.Errorf("--cloud-provider=%s is not known: want %s", name, provider.Name)
	}
	f, err := openConfig(file)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	if i.provider, err = cloudprovider.GetCloudProvider(name, f); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// openConfig opens the cloud-config.
func openConfig(file string) (*os.File, error) {
	if file == "" {
		return nil, errors.New("no cloud-config: give its file with --cloud-config")
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("cloud-config: %w", err)
	}
	return f, nil
}
