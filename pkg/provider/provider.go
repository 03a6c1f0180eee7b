// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

// Package provider is the cloudprovider.Interface of CloudStack: the glue between Kubernetes' cloud
// controllers and the packages that do the work, and its Events and metrics.
package provider

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/adoption"
	"github.com/csccm/csccm/pkg/provider/deletion"
	"github.com/csccm/csccm/pkg/provider/event"
	"github.com/csccm/csccm/pkg/provider/outofservice"
	"github.com/csccm/csccm/pkg/registration"
	"github.com/csccm/csccm/pkg/seal"
	"github.com/csccm/csccm/pkg/tenancy"
)

const (
	// Name is the provider's name, the value of --cloud-provider; it is upstream's.
	Name = "external-cloudstack"
	// Alias is taken as well: the name of the provider that Kubernetes itself once had.
	Alias = "cloudstack"

	component = "cloudstack-cloud-controller-manager"
)

// Provider implements cloudprovider.Interface for one project of one CloudStack.
type Provider struct {
	config    *cloudstack.Config
	options   Options
	tenancy   tenancy.Policy
	scope     outofservice.Scope
	client    *cloudstack.Client
	inventory *inventory.Inventory
	instances *instances
	lb        *loadBalancer // nil before Initialize
	metrics   *nodeMetrics

	recordKeys    recordKeys
	clusterUID    string // the UID of namespace kube-system; see readClusterUID
	clientOptions []cloudstack.Option
	reloader      *reloader // nil unless the framework made the provider

	initialize   sync.Once
	nodeCache    atomic.Pointer[coreinformers.NodeInformer] // the framework's, as the next two
	serviceCache atomic.Pointer[coreinformers.ServiceInformer]
	factory      atomic.Pointer[informers.SharedInformerFactory]
	services     sync.Once // followServices
	records      *recordsCache
	events       atomic.Pointer[event.Nodes]
}

var (
	_ cloudprovider.Interface    = (*Provider)(nil)
	_ cloudprovider.InformerUser = (*Provider)(nil)
)

// Register makes the provider known to the framework under Name and Alias. The options are read when the
// framework asks for the provider, after flags are parsed.
func Register(o *Options) {
	factory := func(r io.Reader) (cloudprovider.Interface, error) {
		text, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("cloud-config: %w", err)
		}
		cfg, err := cloudconfig.Parse(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		for _, w := range cfg.Warnings() {
			klog.InfoS("The cloud-config works, but", "hint", w)
		}
		p, err := New(cfg, *o)
		if err != nil {
			return nil, err
		}
		p.reloader = newReloader(p, text)
		return p, nil
	}
	cloudprovider.RegisterCloudProvider(Name, factory)
	cloudprovider.RegisterCloudProvider(Alias, factory)
}

// New makes a provider. It makes no API call: a CloudStack that is down does not keep it from starting.
func New(cfg *cloudstack.Config, o Options, clientOptions ...cloudstack.Option) (*Provider, error) {
	cfg.CABundle = o.CABundle
	if o.WriteGate != nil {
		clientOptions = append(clientOptions, cloudstack.WithWriteGate(o.WriteGate))
	}
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	watched := append(slices.Clip(clientOptions), cloudstack.WithObserver((&outage{clock: o.Clock, over: logOutage}).observe))
	watched = append(watched, cloudstack.WithRateLimitLog(func(limit string) { klog.InfoS("The rate limit of API calls", "limit", limit) }))
	client, err := cloudstack.NewClient(cfg, watched...)
	if err != nil {
		return nil, err
	}
	p, err := assemble(cfg, o, client)
	if err != nil {
		return nil, err
	}
	if err := p.checkClusterID(); err != nil {
		return nil, err
	}
	p.client, p.clientOptions = client, clientOptions
	return p, nil
}

// assemble makes the parts that Nodes need.
func assemble(cfg *cloudstack.Config, o Options, api inventory.API) (*Provider, error) {
	settings, err := o.parse()
	if err != nil {
		return nil, err
	}
	settings.metadata.Region = cfg.Region
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	p := &Provider{
		config:  cfg,
		options: o,
		tenancy: settings.tenancy,
		scope:   settings.scope,
		records: newRecordsCache(),
		inventory: inventory.New(api, inventory.Options{
			ProjectID:      cfg.ProjectID,
			Zone:           cfg.Zone,
			AffinityGroups: settings.metadata.Labels.AffinityGroups,
			Clock:          o.Clock,
		}),
	}
	p.recordKeys.use(cfg)
	p.metrics = newNodeMetrics(p)
	p.instances = &instances{
		vms:      p.inventory,
		metadata: settings.metadata,
		nodes:    p.nodes,
		guard:    deletion.NewGuard(o.DeletionGuard, o.Clock),
		events:   p.events.Load,
		metrics:  p.metrics,
	}
	return p, nil
}

// Initialize connects the provider to the cluster. It starts what runs beside the framework's controllers;
// all of that ends when stop is closed.
func (p *Provider) Initialize(clientBuilder cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
	// With leader migration the framework calls this once per lock.
	p.initialize.Do(func() {
		kube, err := clientBuilder.Client(component)
		if err != nil {
			// The framework's interface leaves no other way to fail.
			klog.ErrorS(err, "No client for the API server")
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		}
		p.start(kube, stop)
	})
}

func (p *Provider) start(kube kubernetes.Interface, stop <-chan struct{}) {
	recorder := newRecorder(kube, stop)
	p.events.Store(event.NewNodes(recorder, p.options.Clock))
	p.awaitClusterUID(wait.ContextForChannel(stop), kube)
	p.lb = newLoadBalancer(p.loadBalancerDeps(kube, recorder))
	if p.options.RegisterMetrics != nil {
		p.options.RegisterMetrics(slices.Concat(p.lb.collectors(), p.metrics.all(), []prometheus.Collector{p.inventory})...)
	}
	go p.contact(wait.ContextForChannel(stop))
	go p.lb.run(wait.ContextForChannel(stop))
	if c := p.outOfService(kube); c.Scope != outofservice.Off {
		p.instances.holds.Store(c)
		go c.Run(wait.ContextForChannel(stop))
	}
	if p.options.AdoptNodes {
		go p.adoption(kube).Run(wait.ContextForChannel(stop))
	}
	if p.options.RegisterCluster != "" {
		go p.registration().Run(wait.ContextForChannel(stop))
	}
}

// registration is the controller of the cluster's entry in CloudStack's UI.
func (p *Provider) registration() *registration.Controller {
	return &registration.Controller{
		API:       p.client,
		Project:   p.inventory.ProjectID,
		Name:      p.options.RegisterCluster,
		ClusterID: p.clusterUID,
		Nodes:     p.nodes,
		VMs:       func(ctx context.Context) (node.Lookup, error) { return p.inventory.VMs(ctx, missAge) },
		Clock:     p.options.Clock,
	}
}

// outOfService is the controller of the taint on Nodes whose VMs are down.
func (p *Provider) outOfService(kube kubernetes.Interface) *outofservice.Controller {
	return &outofservice.Controller{
		Kube:    kube,
		Nodes:   p.nodes,
		Down:    p.instances.down,
		Running: p.instances.running,
		Scope:   p.scope,
		Percent: p.options.DeletionGuard.Percent,
		Events:  p.events.Load(),
		Metrics: p.metrics.outOfService,
		Clock:   p.options.Clock,
	}
}

// adoption is the controller of Nodes that joined without the taint.
func (p *Provider) adoption(kube kubernetes.Interface) *adoption.Controller {
	return &adoption.Controller{
		Kube:     kube,
		Nodes:    p.nodes,
		VM:       p.instances.own,
		Metadata: p.instances.metadata,
		Events:   p.events.Load(),
		Clock:    p.options.Clock,
	}
}

// loadBalancerDeps is what Services are worked on with.
func (p *Provider) loadBalancerDeps(kube kubernetes.Interface, recorder event.Recorder) loadBalancerDeps {
	return loadBalancerDeps{
		Options: loadbalancer.Options{
			ClusterID:       p.clusterID,
			ClusterName:     p.options.ClusterName,
			FormerClusterID: commonClusterID,
			Seal:            seal.New(p.recordKeys.list),
			DriftPeriod:     p.options.DriftPeriod,
			Policy:          plan.Policy(p.options.Policy),
			LeaveACLs:       !p.options.ManageNetworkACLs,
			Mode:            cmp.Or(p.options.LBMode, p.config.LBMode),
			Commands:        p.client.ListAPIs,
		},
		API:          loadbalancer.FromClient(p.client),
		Inventory:    p.inventory,
		InventoryOf:  p.inventoryOf,
		Kube:         kube,
		Recorder:     recorder,
		Services:     p.servicesOf(kube),
		Nodes:        p.nodes,
		CleanOrphans: p.options.CleanOrphans,
		SuspectAfter: p.options.DirectSuspectAfter,
		Probe:        p.options.ProbeKubelet,
		Tenancy:      p.tenancy,
		Clock:        p.options.Clock,
		Records:      p.records,
	}
}

// inventoryOf is the inventory of a project that a Service names.
func (p *Provider) inventoryOf(project string) *inventory.Inventory {
	return inventory.New(p.client, inventory.Options{ProjectID: project, Zone: p.config.Zone, Clock: p.options.Clock})
}

func newRecorder(kube kubernetes.Interface, stop <-chan struct{}) record.EventRecorder {
	broadcaster := record.NewBroadcaster(record.WithContext(wait.ContextForChannel(stop)))
	broadcaster.StartStructuredLogging(0)
	broadcaster.StartRecordingToSink(&corev1client.EventSinkImpl{Interface: kube.CoreV1().Events("")})
	return broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
}

// SetInformers makes the provider a user of the framework's informers.
func (p *Provider) SetInformers(factory informers.SharedInformerFactory) {
	var nodes coreinformers.NodeInformer = factory.Core().V1().Nodes()
	// This asks the factory to start it.
	if err := nodes.Informer().SetTransform(cachedNode); err != nil {
		klog.ErrorS(err, "Nodes are cached whole, which needs more memory")
	}
	p.nodeCache.Store(&nodes)
	p.factory.Store(&factory)
}

// nodes lists the cluster's Nodes from the framework's cache.
func (p *Provider) nodes() ([]*corev1.Node, error) {
	c := p.nodeCache.Load()
	if c == nil || !(*c).Informer().HasSynced() {
		return nil, errNoNodes
	}
	return (*c).Lister().List(labels.Everything())
}

// LoadBalancer is supported once the provider is initialised. The service controller asks for it before it uses the
// Services informer.
func (p *Provider) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	if p.lb == nil {
		return nil, false
	}
	if factory := p.factory.Load(); factory != nil {
		p.services.Do(func() { p.followServices(*factory) })
	}
	return p.lb, true
}

// InstancesV2 is how the framework learns of VMs.
func (p *Provider) InstancesV2() (cloudprovider.InstancesV2, bool) { return p.instances, true }

// ProviderName is upstream's.
func (p *Provider) ProviderName() string { return Name }

// HasClusterID is true: tags and names carry the cluster's id, VMs need none.
func (p *Provider) HasClusterID() bool { return true }

// Instances is the interface that InstancesV2 has replaced.
func (p *Provider) Instances() (cloudprovider.Instances, bool) { return nil, false }

// Zones is the interface that InstancesV2 has replaced.
func (p *Provider) Zones() (cloudprovider.Zones, bool) { return nil, false }

// Clusters has no use outside Kubernetes' own history.
func (p *Provider) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

// Routes are the network plugin's business.
func (p *Provider) Routes() (cloudprovider.Routes, bool) { return nil, false }
