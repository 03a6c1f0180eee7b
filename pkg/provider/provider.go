// Copyright The csccm Authors.
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/klog/v2"

	"github.com/csccm/csccm/pkg/cloudstack"
	"github.com/csccm/csccm/pkg/cloudstack/cloudconfig"
	"github.com/csccm/csccm/pkg/inventory"
	"github.com/csccm/csccm/pkg/loadbalancer"
	"github.com/csccm/csccm/pkg/loadbalancer/plan"
	"github.com/csccm/csccm/pkg/node"
	"github.com/csccm/csccm/pkg/provider/event"
	"github.com/csccm/csccm/pkg/seal"
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
	nodeCache    atomic.Pointer[nodeCache]
	serviceCache atomic.Pointer[serviceCache]
	factory      atomic.Pointer[informers.SharedInformerFactory] // the framework's
	services     sync.Once                                       // followServices
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
		if r == nil {
			return nil, errors.New("no cloud-config: give its file with --cloud-config")
		}
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
	if err := o.Validate(); err != nil {
		return nil, err
	}
	cfg.CABundle = o.CABundle
	if o.WriteGate != nil {
		clientOptions = append(clientOptions, cloudstack.WithWriteGate(o.WriteGate))
	}
	o = o.withDefaults()
	watched := append(slices.Clip(clientOptions), cloudstack.WithObserver((&outage{clock: o.Clock, over: logOutage}).observe))
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
	o = o.withDefaults()
	form, err := node.ParseForm(o.ProviderIDFormat)
	if err != nil {
		return nil, err
	}
	labelForm, err := node.ParseLabelForm(o.InstanceTypeFormat)
	if err != nil {
		return nil, err
	}
	addresses, extraLabels, err := o.Nodes.parse()
	if err != nil {
		return nil, err
	}
	p := &Provider{
		config:  cfg,
		options: o,
		records: newRecordsCache(),
		inventory: inventory.New(api, inventory.Options{
			ProjectID:      cfg.ProjectID,
			Zone:           cfg.Zone,
			AffinityGroups: extraLabels.AffinityGroups,
			Clock:          o.Clock,
		}),
	}
	p.recordKeys.use(cfg)
	p.metrics = newNodeMetrics(p)
	p.instances = &instances{
		vms:      p.inventory,
		metadata: node.Options{Form: form, LabelForm: labelForm, Region: cfg.Region, Addresses: addresses, Labels: extraLabels},
		nodes:    p.nodes,
		guard:    newGuard(o.DeletionGuard, o.Clock),
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
		p.options.RegisterMetrics(append(append(p.lb.Collectors(), p.inventory), p.metrics.all()...)...)
	}
	go p.contact(wait.ContextForChannel(stop))
	go p.lb.run(wait.ContextForChannel(stop))
}

// loadBalancerDeps is what Services are worked on with.
func (p *Provider) loadBalancerDeps(kube kubernetes.Interface, recorder record.EventRecorder) loadBalancerDeps {
	return loadBalancerDeps{
		API:             loadbalancer.FromClient(p.client),
		Inventory:       p.inventory,
		InventoryOf:     p.inventoryOf,
		Kube:            kube,
		Recorder:        recorder,
		ClusterID:       p.clusterID,
		ClusterName:     p.options.ClusterName,
		FormerClusterID: commonClusterID,
		Services:        p.servicesOf(kube),
		Seal:            seal.New(p.recordKeys.list),
		DriftPeriod:     p.options.DriftPeriod,
		Policy:          plan.Policy(p.options.Policy),
		LeaveACLs:       !p.options.ManageNetworkACLs,
		CleanOrphans:    p.options.CleanOrphans,
		Tenancy:         p.options.tenancy(),
		Clock:           p.options.Clock,
		Records:         p.records,
		Nodes:           p.nodes,
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
	nodes := factory.Core().V1().Nodes()
	// Informer also asks the factory to start it.
	p.nodeCache.Store(&nodeCache{synced: nodes.Informer().HasSynced, lister: nodes.Lister()})
	p.factory.Store(&factory)
}

// nodeCache is what the provider uses of the framework's informer.
type nodeCache struct {
	synced cache.InformerSynced
	lister corelisters.NodeLister
}

// serviceCache is what the provider uses of the framework's informer.
type serviceCache struct {
	synced cache.InformerSynced
	lister corelisters.ServiceLister
}

// nodes lists the cluster's Nodes from the framework's cache.
func (p *Provider) nodes() ([]*corev1.Node, error) {
	c := p.nodeCache.Load()
	if c == nil || !c.synced() {
		return nil, errNoNodes
	}
	list, err := c.lister.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	return list, nil
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
