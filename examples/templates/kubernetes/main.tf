# A workspace on Kubernetes: a Deployment of one pod with Coder's agent, and a volume for /home/coder that stays while the
# workspace is stopped. It passes Pod Security "restricted".
terraform {
  required_providers {
    coder = {
      source  = "coder/coder"
      version = ">= 2.13.1"
    }
    kubernetes = {
      source  = "hashicorp/kubernetes"
      version = ">= 1.13, < 4.0"
    }
  }
}

# Without arguments it uses the ServiceAccount of the pod in which Terraform runs: that of Coder, or of an external
# provisioner. The operator lets it make pods, claims and Deployments (spec.rbac of the CoderControlPlane).
provider "kubernetes" {}

# Variables are for whoever keeps the template; parameters, below, are for those who make a workspace.

variable "namespace" {
  type        = string
  description = "The namespace of the workspaces' pods and volumes. Coder's ServiceAccount needs rights there."
  default     = "coder"
}

variable "image" {
  type        = string
  description = "The image of the workspaces. It needs sh and a user 1000, and coder, curl or wget to start the agent."
  default     = "docker.io/codercom/enterprise-base:ubuntu"
}

variable "storage_class" {
  type        = string
  description = "The StorageClass of /home/coder. If it is empty, the cluster's default is used."
  default     = ""
}

data "coder_workspace" "me" {}
data "coder_workspace_owner" "me" {}

data "coder_parameter" "cpu" {
  name         = "cpu"
  display_name = "CPUs"
  description  = "How many CPUs the workspace may use"
  type         = "number"
  default      = "2"
  mutable      = true
  validation {
    min = 1
    max = 16
  }
}

data "coder_parameter" "memory" {
  name         = "memory"
  display_name = "Memory in GiB"
  description  = "How much memory the workspace may use"
  type         = "number"
  default      = "2"
  mutable      = true
  validation {
    min = 1
    max = 64
  }
}

data "coder_parameter" "home_size" {
  name         = "home_size"
  display_name = "Size of /home/coder in GiB"
  description  = "It is set when the workspace is made"
  type         = "number"
  default      = "10"
  mutable      = false
  validation {
    min = 1
    max = 200
  }
}

locals {
  # The id, because names of owners and workspaces may be longer than those of objects.
  name = "coder-${data.coder_workspace.me.id}"

  # By com.coder.workspace.id, coder-k8s finds the pods of a workspace: for its conditions, its tree and its logs.
  labels = {
    "app.kubernetes.io/name"     = "coder-workspace"
    "app.kubernetes.io/instance" = local.name
    "app.kubernetes.io/part-of"  = "coder"
    "com.coder.resource"         = "true"
    "com.coder.workspace.id"     = data.coder_workspace.me.id
    "com.coder.workspace.name"   = data.coder_workspace.me.name
    "com.coder.user.id"          = data.coder_workspace_owner.me.id
    "com.coder.user.username"    = data.coder_workspace_owner.me.name
  }
}

# The agent runs in the pod and connects to Coder. All that enters the workspace goes through it.
resource "coder_agent" "main" {
  os   = "linux"
  arch = "amd64"
  dir  = "/home/coder"

  metadata {
    key          = "cpu"
    display_name = "CPU"
    script       = "coder stat cpu"
    interval     = 30
    timeout      = 5
  }
  metadata {
    key          = "memory"
    display_name = "Memory"
    script       = "coder stat mem"
    interval     = 30
    timeout      = 5
  }
  metadata {
    key          = "home"
    display_name = "Disk of /home/coder"
    script       = "coder stat disk --path /home/coder"
    interval     = 60
    timeout      = 5
  }
}

# What the agent runs at each start. A server goes to the background, because the workspace is ready when the script ends.
resource "coder_script" "files" {
  agent_id     = coder_agent.main.id
  display_name = "File server"
  run_on_start = true
  script       = <<-EOT
    #!/bin/sh
    if command -v python3 >/dev/null; then
      nohup python3 -m http.server 8000 --bind 127.0.0.1 --directory /home/coder >/tmp/files.log 2>&1 &
    else
      echo "there is no python3 in this image, and so no file server"
    fi
  EOT
}

# A program with a web page. Coder asks its healthcheck, and the workspace's status shows the answer.
resource "coder_app" "files" {
  agent_id     = coder_agent.main.id
  slug         = "files"
  display_name = "Files"
  icon         = "/icon/folder.svg"
  url          = "http://localhost:8000"
  subdomain    = false
  share        = "owner"
  healthcheck {
    url       = "http://localhost:8000"
    interval  = 5
    threshold = 6
  }
}

# A command in a terminal of Coder's page.
resource "coder_app" "terminal" {
  agent_id     = coder_agent.main.id
  slug         = "terminal"
  display_name = "Terminal"
  icon         = "/icon/terminal.svg"
  command      = "bash"
}

# There is no count, so it stays while the workspace is stopped. It goes when the workspace is deleted.
resource "kubernetes_persistent_volume_claim_v1" "home" {
  metadata {
    name      = "${local.name}-home"
    namespace = var.namespace
    labels    = local.labels
  }
  # Some classes of storage make a volume only when a pod asks for it.
  wait_until_bound = false
  spec {
    access_modes       = ["ReadWriteOnce"]
    storage_class_name = var.storage_class == "" ? null : var.storage_class
    resources {
      requests = {
        storage = "${data.coder_parameter.home_size.value}Gi"
      }
    }
  }
}

# A Deployment and no bare pod: a pod that was evicted, or whose node is gone, is made again.
resource "kubernetes_deployment_v1" "main" {
  # 1 while the workspace runs, 0 while it is stopped.
  count = data.coder_workspace.me.start_count

  # The build ends when the objects are there. Whether the pod starts is seen in the workspace's conditions, at once and with
  # the reason.
  wait_for_rollout = false

  metadata {
    name      = local.name
    namespace = var.namespace
    labels    = local.labels
  }
  spec {
    replicas = 1
    selector {
      match_labels = {
        "com.coder.workspace.id" = data.coder_workspace.me.id
      }
    }
    # A volume with ReadWriteOnce cannot be in two pods of different nodes.
    strategy {
      type = "Recreate"
    }
    template {
      metadata {
        labels = local.labels
      }
      spec {
        # For the prompt of a shell.
        hostname = lower(data.coder_workspace.me.name)
        # What runs in a workspace has no business with the API server.
        automount_service_account_token  = false
        enable_service_links             = false
        termination_grace_period_seconds = 30
        security_context {
          run_as_user     = 1000
          run_as_group    = 1000
          run_as_non_root = true
          fs_group        = 1000
          seccomp_profile {
            type = "RuntimeDefault"
          }
        }
        container {
          name              = "main"
          image             = var.image
          image_pull_policy = "IfNotPresent"
          # An image that has coder needs no download. In others Coder's own script fetches the agent.
          command = ["sh", "-c", <<-EOT
            if coder=$(command -v coder); then exec "$coder" agent; fi
            ${coder_agent.main.init_script}
          EOT
          ]
          env {
            name  = "CODER_AGENT_TOKEN"
            value = coder_agent.main.token
          }
          env {
            name  = "CODER_AGENT_URL"
            value = data.coder_workspace.me.access_url
          }
          # Larger packets through Coder's relay make copies with kubectl coder four times faster.
          env {
            name  = "TS_DEBUG_MTU"
            value = "32768"
          }
          resources {
            requests = {
              cpu    = "100m"
              memory = "256Mi"
            }
            limits = {
              cpu    = data.coder_parameter.cpu.value
              memory = "${data.coder_parameter.memory.value}Gi"
            }
          }
          security_context {
            run_as_user                = 1000
            run_as_group               = 1000
            run_as_non_root            = true
            allow_privilege_escalation = false
            capabilities {
              drop = ["ALL"]
            }
          }
          volume_mount {
            name       = "home"
            mount_path = "/home/coder"
          }
        }
        volume {
          name = "home"
          persistent_volume_claim {
            claim_name = kubernetes_persistent_volume_claim_v1.home.metadata[0].name
          }
        }
      }
    }
  }
}
