package litellm

import "strings"

// provider is who serves a model by OpenAI's routes.
type provider struct {
	base string // where its routes begin; "" when only the config can say
	key  string // the variable that LiteLLM takes its key from when the config does not say
}

// providers are those that speak OpenAI's dialect, by LiteLLM's prefix of models.
var providers = map[string]provider{
	"openai":                 {"https://api.openai.com/v1", "OPENAI_API_KEY"},
	"text-completion-openai": {"https://api.openai.com/v1", "OPENAI_API_KEY"},
	"custom_openai":          {"", ""},
	"openai_like":            {"", "OPENAI_LIKE_API_KEY"},
	"litellm_proxy":          {"", "LITELLM_PROXY_API_KEY"},
	"hosted_vllm":            {"", "HOSTED_VLLM_API_KEY"},
	"vllm":                   {"", ""},
	"lm_studio":              {"", "LM_STUDIO_API_KEY"},
	"llamafile":              {"", ""},
	"ollama":                 {"http://localhost:11434", ""},
	"ollama_chat":            {"http://localhost:11434", ""},
	"groq":                   {"https://api.groq.com/openai/v1", "GROQ_API_KEY"},
	"mistral":                {"https://api.mistral.ai/v1", "MISTRAL_API_KEY"},
	"deepseek":               {"https://api.deepseek.com/v1", "DEEPSEEK_API_KEY"},
	"together_ai":            {"https://api.together.xyz/v1", "TOGETHERAI_API_KEY"},
	"fireworks_ai":           {"https://api.fireworks.ai/inference/v1", "FIREWORKS_AI_API_KEY"},
	"openrouter":             {"https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"},
	"perplexity":             {"https://api.perplexity.ai", "PERPLEXITYAI_API_KEY"},
	"xai":                    {"https://api.x.ai/v1", "XAI_API_KEY"},
	"cerebras":               {"https://api.cerebras.ai/v1", "CEREBRAS_API_KEY"},
	"deepinfra":              {"https://api.deepinfra.com/v1/openai", "DEEPINFRA_API_KEY"},
	"nvidia_nim":             {"https://integrate.api.nvidia.com/v1", "NVIDIA_NIM_API_KEY"},
	"sambanova":              {"https://api.sambanova.ai/v1", "SAMBANOVA_API_KEY"},
}

// others are providers of another dialect; the names that LiteLLM knows them by without a prefix begin so.
var others = map[string]string{"claude-": "anthropic", "gemini-": "vertex_ai", "command-": "cohere"}

// split takes a model of litellm_params apart. A name without a known prefix is OpenAI's.
func split(model string) (name, real string) {
	if name, real, ok := strings.Cut(model, "/"); ok {
		return name, real
	}
	for prefix, name := range others {
		if strings.HasPrefix(model, prefix) {
			return name, model
		}
	}
	return "openai", model
}

// reasons say why something has no counterpart, by the last key of its path or by the path.
var reasons = map[string]string{}

func init() {
	for reason, keys := range map[string]string{
		"only upstreams of OpenAI's dialect are imported yet": "api_version azure_ad_token azure_deployment " +
			"custom_llm_provider aws_access_key_id aws_secret_access_key aws_region_name vertex_project vertex_location vertex_credentials",
		"bodies are forwarded as they are": "drop_params modify_params additional_drop_params allowed_openai_params temperature max_tokens " +
			"top_p seed extra_body merge_reasoning_content_in_choices",
		"llmgov does not retry; it tells callers when to come back": "num_retries max_retries retry_after retry_policy " +
			"model_group_retry_policy allowed_fails allowed_fails_policy cooldown_time disable_cooldowns",
		"there are no fallbacks":                          "fallbacks context_window_fallbacks content_policy_fallbacks default_fallbacks enable_pre_call_checks",
		"answers are not cached":                          "cache cache_params enable_caching_on_provider_specific_optional_params",
		"there are no callbacks; metrics are at /metrics": "success_callback failure_callback callbacks service_callback service_callbacks callback_settings langfuse_default_tags",
		"a model has one upstream":                        "routing_strategy routing_strategy_args weight order model_group_alias provider_budget_config",
		"limits are shared by what store names":           "redis_host redis_port redis_password redis_url cache_kwargs use_redis_transaction_buffer",
		"policies are files, and there is no database":    "database_url database_connection_pool_limit store_model_in_db store_prompts_in_spend_logs proxy_batch_write_at disable_spend_logs",
		"alerts are made from the metrics":                "alerting alerting_threshold alert_types alerting_args spend_report_frequency alert_to_webhook_url",
		"prompts are not looked into":                     "guardrails prompts guardrail",
		"it is imported by itself":                        "include",
		"set it in the environment of llmgov":             "environment_variables",
		"only timeouts for all upstreams, in timeouts":    "timeout stream_timeout",
		"a key's limits per model are not supported yet":  "model_rpm_limit model_tpm_limit model_max_budget",
		"when it began is not in here; write expires":     "duration",
		"llmgov only knows what prices says":              "base_model",
		"who may call is in the tenants' files":           "enable_jwt_auth litellm_jwtauth custom_auth ui_access_mode allowed_routes user_api_key_cache_ttl",
		"logs have one form":                              "set_verbose json_logs turn_off_message_logging redact_user_api_key_info debug detailed_debug",
	} {
		for key := range strings.FieldsSeq(keys) {
			reasons[key] = reason
		}
	}
}

// why is the reason for a path.
func why(path string) string {
	key := path[strings.LastIndexByte(path, '.')+1:]
	if reason, known := reasons[key]; known {
		return reason
	}
	return "has no counterpart"
}
