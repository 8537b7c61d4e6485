// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.sql.streamapp

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}
import java.security.KeyStore
import java.util.{Base64, Properties}
import javax.net.ssl.{TrustManagerFactory, X509TrustManager}

import scala.util.Using

/**
 * The client properties for access to Kafka: a file, read anew for each client.
 *
 * A password, certificate or key `${directory:FOLDER:FILE}` is the content of that file, as Kafka's own DirectoryConfigProvider
 * writes it; so the file itself has no secret where these are mounted from a Secret. In a file of ours,
 * `streamapp.secrets.folder` names the only folder that counts (the Python side's config.py has the same rules). `sasl.username`
 * and `sasl.password`, which Kafka's Java clients do not know, and the settings of OAUTHBEARER become a login.
 */
private[streamapp] object ClientProperties {
  private val Reference = """\$\{directory:([^:}]+):([^:}/]+)\}""".r
  private val SecretsFolder = "streamapp.secrets.folder"
  private val Referable = Set(
    "sasl.username", "sasl.password", "sasl.jaas.config", "sasl.oauthbearer.client.credentials.client.id",
    "sasl.oauthbearer.client.credentials.client.secret", "ssl.truststore.certificates",
    "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.password", "ssl.key.password")
  private val (user, password) = ("sasl.username", "sasl.password")
  private val TokenEndpoint = "sasl.oauthbearer.token.endpoint.url"
  private val AllowedEndpoints = "org.apache.kafka.sasl.oauthbearer.allowed.urls"
  private val Security = "org.apache.kafka.common.security"

  def load(path: String): Properties = {
    val properties = new Properties()
    Using.resource(Files.newBufferedReader(Path.of(path), UTF_8))(properties.load(_))
    val folder = Option(properties.remove(SecretsFolder)).map(_.toString)
    properties.replaceAll((name, value) => if (Referable(name.toString)) resolved(value.toString, folder) else value)
    addLogin(properties)
    properties
  }

  private def resolved(value: String, only: Option[String]): String = value match {
    case Reference(folder, file) if only.forall(_ == folder) => Files.readString(Path.of(folder, file), UTF_8).stripLineEnd
    case plain => plain
  }

  private def addLogin(properties: Properties): Unit = properties.getProperty("sasl.mechanism") match {
    case "OAUTHBEARER" =>
      allow(properties.getProperty(TokenEndpoint))
      properties.put("sasl.login.callback.handler.class", s"$Security.oauthbearer.OAuthBearerLoginCallbackHandler")
      properties.put("sasl.jaas.config",
        s"$Security.oauthbearer.OAuthBearerLoginModule required${trustOf(properties).mkString};")
    case mechanism if properties.containsKey(user) =>
      val module = if (mechanism == "PLAIN") "plain.PlainLoginModule" else "scram.ScramLoginModule"
      val who = s"username=${quoted(properties.remove(user))} password=${quoted(properties.remove(password))}"
      properties.put("sasl.jaas.config", s"$Security.$module required $who;")
    case _ =>
  }

  /** Returns the authorities for the endpoint of tokens: Kafka's own, beside Java's. */
  private def trustOf(properties: Properties): Option[String] = {
    def store(name: String) = Option(properties.getProperty(s"ssl.truststore.$name"))
    store("certificates").orElse(store("location").map(file => Files.readString(Path.of(file), UTF_8)))
      .filter(_ => properties.getProperty(TokenEndpoint).startsWith("https:"))
      .map(ours => s" ssl.truststore.type=PEM ssl.truststore.certificates=${quoted(ours + "\n" + public)}")
  }

  private lazy val public: String = {
    val factory = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm)
    factory.init(null: KeyStore)
    val lines = Base64.getMimeEncoder(64, Array('\n'.toByte))
    val known = factory.getTrustManagers.collect { case manager: X509TrustManager => manager.getAcceptedIssuers }
    known.flatten.map { authority =>
      s"-----BEGIN CERTIFICATE-----\n${lines.encodeToString(authority.getEncoded)}\n-----END CERTIFICATE-----\n"
    }.mkString
  }

  private def quoted(text: Any): String =
    "\"" + text.toString.replace("\\", "\\\\").replace("\"", "\\\"").replace("\n", "\\n") + "\""

  // Kafka asks only where it is allowed to. The address is the manifest's.
  private def allow(endpoint: String): Unit = synchronized {
    val allowed = Option(System.getProperty(AllowedEndpoints)).toSeq.flatMap(_.split(',')).filter(_.nonEmpty)
    if (!allowed.contains(endpoint)) System.setProperty(AllowedEndpoints, (allowed :+ endpoint).mkString(","))
  }
}
